import { backendConformance } from "./backend_conformance.ts";
import { MemoryBackend } from "./memory_backend.ts";

backendConformance("memory", () =>
  Promise.resolve({
    backend: new MemoryBackend(),
    [Symbol.asyncDispose]: () => Promise.resolve(),
  }));
