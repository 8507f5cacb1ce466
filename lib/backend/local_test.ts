import { backendConformance } from "./conformance.ts";
import { LocalBackend } from "./local.ts";

backendConformance("local", async () => {
  const directory = await Deno.makeTempDir();
  return {
    backend: await LocalBackend.open(`${directory}/store`),
    [Symbol.asyncDispose]: () => Deno.remove(directory, { recursive: true }),
  };
});
