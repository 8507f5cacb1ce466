import { assertEquals } from "@std/assert";
import type { Surfaces } from "../../../cli/redteam/context.ts";
import { CONTROL_PROMISES } from "../../../cli/redteam/control_listeners.ts";
import { DISPLAY_PROMISES } from "../../../cli/redteam/display.ts";
import { GATE_PROMISES } from "../../../cli/redteam/approval_gate.ts";
import { LEDGER_PROMISES } from "../../../cli/redteam/ceilings.ts";
import { FILE_PROMISES } from "../../../cli/redteam/file_modes.ts";
import { allReported, tryThem, unheld } from "./_context.ts";
import { naiveBroker } from "./_naive_broker.ts";
import { longTest } from "../../support/long.ts";

Deno.test("the listeners, gate, records, files and display hold every promise", async () => {
  const unmet = unheld(await tryThem(["control", "files", "display"]));
  assertEquals(unmet, [["files.installed", "skipped", [], "nothing is set up here: there is no ~/.taskd"]]);
});

/** Parts that let everything through. */
const OPEN: Partial<Surfaces> = {
  broker: naiveBroker,
  checkAdmin: () => {},
  readKeys: () => Promise.resolve(new Map([["VENDORA_API_KEY", "x"]])),
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
  verifyTrace: () => ({ intact: true, head: { seq: 1, sha256: "", bytes: 0 }, torn_bytes: 0 }),
  sanitizeText: (text) => text,
  webResponse: (path) =>
    new Response(`<script src="/ui/x.ts"></script><script>${path}</script>`, {
      headers: { "content-type": "text/html" },
    }),
};

longTest("every promise about them is a hole with parts that allow everything", async () => {
  const home = await Deno.makeTempDir();
  try {
    await Deno.mkdir(`${home}/audit`, { mode: 0o755 });
    await Deno.writeTextFile(`${home}/api-keys.env`, "x", { mode: 0o644 });
    const installed = { directory: home, audit_root: `${home}/audit`, squid_run_dir: `${home}/squid` };
    const tried = await tryThem(["control", "files", "display"], { surfaces: OPEN, installed, timeout_ms: 1_000 });
    const families = [CONTROL_PROMISES, GATE_PROMISES, LEDGER_PROMISES, FILE_PROMISES, DISPLAY_PROMISES];
    assertEquals(tried.length, families.flat().length);
    allReported(tried);
  } finally {
    await Deno.remove(home, { recursive: true });
  }
});
