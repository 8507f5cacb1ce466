/**
 * Networks for containers of tests: each has a name and addresses that no other test of this machine has, in this run or
 * in another one at the same time.
 *
 * They are drawn, and held by a lock that ends with its process: a network that one draws whose lock is free was left by a
 * run that was killed, and is removed first.
 */

import { SeededRandom } from "./writers/random.ts";

const LOCKS = "/var/tmp/taskd-test-networks";
const PODMAN = "/usr/bin/podman";

/** A network's name and addresses; it is made by who uses it, and removed at the end. */
export interface TestNetwork extends AsyncDisposable {
  network: string;
  /** `10.n.m.0/24`. */
  subnet: string;
  gateway_ip: string;
  /** The first three numbers and a dot, with which all its addresses begin. */
  prefix: string;
}

export async function drawNetwork(): Promise<TestNetwork> {
  await Deno.mkdir(LOCKS, { recursive: true });
  const random = new SeededRandom(crypto.getRandomValues(new Uint32Array(1))[0]!);
  for (;;) {
    // From 90 on: below are the networks that podman has, or gives, by default.
    const numbers = [random.between(90, 191), random.between(0, 255)];
    const prefix = `10.${numbers.join(".")}.`;
    // This machine's own networks are not for tests.
    if (Deno.networkInterfaces().some(({ address }) => address.startsWith(prefix.split(".", 2).join(".") + "."))) {
      continue;
    }
    const lock = await Deno.open(`${LOCKS}/${numbers.join("-")}`, { create: true, write: true });
    if (!await lock.tryLock(true)) {
      lock.close();
      continue;
    }
    const network = `taskd-test-${numbers.join("-")}`;
    const remove = async () => {
      const args = ["network", "rm", "--force", network];
      await new Deno.Command(PODMAN, { args, stdin: "null", stdout: "null", stderr: "null" }).output();
    };
    await remove();
    return {
      network,
      subnet: `${prefix}0/24`,
      gateway_ip: `${prefix}1`,
      prefix,
      async [Symbol.asyncDispose]() {
        await remove();
        lock.close();
      },
    };
  }
}
