import { assertEquals } from "@std/assert";
import type { Surfaces } from "./context.ts";
import { CONTROL_PROMISES } from "./control_listeners.ts";
import { DISPLAY_PROMISES } from "./display.ts";
import { GATE_PROMISES } from "./approval_gate.ts";
import { LEDGER_PROMISES } from "./ceilings.ts";
import { MADE_PROMISES } from "./files_made.ts";
import { SOURCE_PORT_PROMISES } from "./source_ports.ts";
import { allReported, tryThem, unheld } from "./_context.ts";
import { naiveBroker } from "./_naive_broker.ts";
import { longTest } from "../support/long.ts";

Deno.test("the listeners, gate, records, files and display hold every promise", async () => {
  assertEquals(unheld(await tryThem(["control", "files", "display"])), []);
});

Deno.test("what a broker makes is its user's alone under a umask of 0 too", async () => {
  // A process of its own: the umask of this one is that of every test beside this.
  const main = new URL("_try_files.ts", import.meta.url).pathname;
  const { stdout } = await new Deno.Command("/bin/sh", {
    args: ["-c", 'umask 0 && exec "$@"', "sh", Deno.execPath(), "run", "-A", "--no-check", "--quiet", main],
    stdin: "null",
    stderr: "inherit",
  }).output();
  assertEquals(JSON.parse(new TextDecoder().decode(stdout)), { umask: 0, tried: 1, unheld: [] });
});

/** Parts that let everything through. */
const OPEN: Partial<Surfaces> = {
  broker: naiveBroker,
  checkAdmin: () => {},
  admission: () =>
    Promise.resolve({
      claim: () => ({
        begin: () => {},
        releaseSlot: () => {},
        end: () => Promise.resolve(),
        abandon: () => {},
      }),
      close: () => Promise.resolve(),
    }),
  verifyTrace: () => ({ intact: true, head: { seq: 1, sha256: "", bytes: 0 } }),
  sanitizeText: (text) => text,
  webResponse: (path) =>
    new Response(`<script src="/ui/x.ts"></script><script>${path}</script>`, {
      headers: { "content-type": "text/html" },
    }),
};

longTest("every promise about them is a hole with parts that allow everything", async () => {
  const tried = await tryThem(["control", "files", "display"], { surfaces: OPEN, timeout_ms: 1_000 });
  const families = [
    CONTROL_PROMISES,
    SOURCE_PORT_PROMISES,
    GATE_PROMISES,
    LEDGER_PROMISES,
    MADE_PROMISES,
    DISPLAY_PROMISES,
  ];
  assertEquals(tried.length, families.flat().length);
  allReported(tried);
});
