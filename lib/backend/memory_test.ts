import { backendConformance } from "./conformance.ts";
import { MemoryBackend } from "./memory.ts";

backendConformance("memory", () =>
  Promise.resolve({
    backend: new MemoryBackend(),
    [Symbol.asyncDispose]: () => Promise.resolve(),
  }));
