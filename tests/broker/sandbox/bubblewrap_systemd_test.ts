/**
 * The control groups that systemd makes for sandboxes of bubblewrap: a real one runs in namespaces of its own, and the
 * sandboxes below it.
 */

import { assertEquals } from "@std/assert";
import { bubblewrapTest } from "../../support/bubblewrap.ts";
import { longTest } from "../../support/long.ts";

const TOOL = new URL("../../tools/with_systemd", import.meta.url).pathname;
const MAIN = new URL("_systemd_main.ts", import.meta.url).pathname;
/** Of the tool: this host does not let it start one. */
const CANNOT = 125;

bubblewrapTest("a scope of systemd bounds a sandbox as a whole, and is gone with it", async () => {
  if (Deno.uid() !== 0) return;
  const { code, stdout, stderr } = await new Deno.Command("/usr/bin/timeout", {
    args: ["120", TOOL, Deno.execPath(), "run", "-A", "--no-check", MAIN],
  }).output();
  if (code === CANNOT) return;
  assertEquals(code, 0, new TextDecoder().decode(stderr));
  assertEquals(JSON.parse(new TextDecoder().decode(stdout)), {
    // Ended by the kernel, not by a limit of their own.
    hogs: ["137", "137", "137"],
    code: 3,
    left: "",
  });
}, longTest);
