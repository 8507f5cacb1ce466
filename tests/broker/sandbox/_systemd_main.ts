/**
 * Sandboxes of bubblewrap below a systemd: prints what bounds them, what they said, and which of their units are left.
 */

import { findBounding } from "../../../broker/sandbox/bubblewrap/control_groups.ts";
import { askProgram } from "../../../broker/sandbox/host_programs.ts";
import { testBubblewrap } from "../../support/bubblewrap.ts";
import { runIn } from "./_container.ts";

/** Three at once that would take all the memory there is, and what each ended with. */
const HOGS = `hog() { /usr/bin/python3 -c 'x = []
while True: x.append(bytearray(10_000_000))'; echo $?; }
hog & hog & hog & wait`;

const ask = askProgram({ env: (name) => Deno.env.get(name) });
const bounding = await findBounding(ask, { name: "taskd-probe", uid: Deno.uid()!, systemd: true });
if (bounding !== "systemd") throw new Error(`a sandbox is bounded by ${bounding}`);
await using test = await testBubblewrap({ bounding });
const memory = await runIn(test, ["/bin/bash", "-c", HOGS], { memory_bytes: 256 << 20 });
const failing = await runIn(test, ["/bin/sh", "-c", "exit 3"]);
const { stdout } = await ask("/usr/bin/systemctl", ["list-units", "--all", "--plain", "--no-legend", "taskd-*"]);
console.log(JSON.stringify({
  hogs: memory.out,
  code: failing.end.code,
  left: stdout.trim(),
}));
