/**
 * Sessions whose process is killed, and files as a power failure leaves them.
 */

import { assert, assertEquals } from "@std/assert";

const CHILD = new URL("../../lib/capture/session.ts", import.meta.url).href;

/** Opens a session of `app` in another process, runs `script` there with `session`, `store` and `sql`, and kills it. */
export async function cutOff(directory: string, script: string): Promise<void> {
  const base = new URL("../../", import.meta.url);
  const program = `
    import { CaptureSession } from ${JSON.stringify(CHILD)};
    import { openStore } from ${JSON.stringify(new URL("lib/store/open.ts", base).href)};
    import { sql } from ${JSON.stringify(new URL("tests/support/stores.ts", base).href)};
    const store = await openStore(Deno.args[0]);
    const session = await CaptureSession.open(store, { db: "app", branch: "main" }, { flush_every_ms: 0, snapshot_every: 16 });
    ${script}
    Deno.kill(Deno.pid, "SIGKILL");
  `;
  const file = await Deno.makeTempFile({ suffix: ".ts" });
  try {
    await Deno.writeTextFile(file, program);
    const config = new URL("deno.json", base).pathname;
    const { signal, stderr } = await new Deno.Command(Deno.execPath(), {
      args: ["run", "-A", "--no-prompt", "--quiet", "--no-check", "--config", config, file, directory],
      stdout: "null",
      stderr: "piped",
    }).output();
    assertEquals(signal, "SIGKILL", new TextDecoder().decode(stderr));
  } finally {
    await Deno.remove(file);
  }
}

/** Copies a file or directory as it is now. By a process of its own: closing a checkout here would drop SQLite's locks on it. */
export async function copyAside(from: string, to: string): Promise<void> {
  const { success, stderr } = await new Deno.Command("cp", { args: ["-aT", "--", from, to] }).output();
  assert(success, new TextDecoder().decode(stderr));
}
