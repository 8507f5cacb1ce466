import { assertEquals } from "@std/assert";
import { unlockAndClose } from "./fs.ts";

/** Starts processes, one after the other, until it is terminated. */
const STARTER = `
  postMessage("started");
  while (true) await new Deno.Command("/bin/true", { stdout: "null", stderr: "null" }).output();
`;

Deno.test("unlockAndClose() frees a lock at once, also while other threads start processes", async () => {
  const path = await Deno.makeTempFile();
  const url = URL.createObjectURL(new Blob([STARTER], { type: "text/javascript" }));
  const starters = Array.from({ length: 3 }, () => new Worker(url, { type: "module" }));
  try {
    await Promise.all(starters.map((starter) => new Promise((resolve) => starter.onmessage = resolve)));
    let refused = 0;
    for (let round = 0; round < 20_000; round++) {
      const file = Deno.openSync(path, { write: true });
      if (!file.tryLockSync(true)) refused++;
      unlockAndClose(file);
    }
    assertEquals(refused, 0);
  } finally {
    for (const starter of starters) starter.terminate();
    URL.revokeObjectURL(url);
    await Deno.remove(path);
  }
});
