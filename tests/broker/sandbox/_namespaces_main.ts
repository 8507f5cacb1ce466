/**
 * Runs sandboxes of podman that end by themselves, late, and when they are stopped, and prints what is left of their
 * networks: `{began, namespaces, address}`.
 */

import { systemClock } from "../../../lib/clock.ts";
import { podman, testRuntime } from "../../support/podman.ts";
import { startIn } from "./_container.ts";

await using test = await testRuntime();
await test.runtime.prepare();
const namespaces: string[] = [];
for (const [command, stops] of [["sleep 0.5", false], ["sleep 600", true]] as const) {
  const { sandbox, task_id, line } = await startIn(test, ["/bin/sh", "-c", `echo ready; ${command}`]);
  await line("ready");
  const name = `taskd-${test.owner.slice(0, 12)}-${task_id}`;
  namespaces.push((await podman("inspect", "--format={{.NetworkSettings.SandboxKey}}", name)).stdout.trim());
  if (stops) await sandbox.stop();
  await sandbox.wait();
}
await test.runtime.close();

const left = () =>
  namespaces.filter((path) => {
    try {
      return Deno.lstatSync(path).isFile;
    } catch (error) {
      if (error instanceof Deno.errors.NotFound) return false;
      throw error;
    }
  });
const addresses = () => Deno.networkInterfaces().filter(({ address }) => address === test.gateway_ip).length;
// `podman run` may end while conmon's own `podman container cleanup` still takes the network away.
for (let tries = 0; tries < 100 && (left().length > 0 || addresses() > 0); tries++) await systemClock.sleep(100);
console.log(
  JSON.stringify({ began: namespaces.filter((path) => path !== "").length, left: left(), address: addresses() }),
);
