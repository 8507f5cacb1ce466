import { assert, assertEquals } from "@std/assert";
import fc from "../packages/fast_check.ts";
import type { CallableOp } from "../../lib/protocol/messages.ts";
import { TaskdError } from "../../lib/errors.ts";
import { COMMON_ERRORS, OPS } from "../../lib/protocol/operations.ts";
import { DaemonProcess, Place } from "./daemon_process.ts";
import { testSeed } from "../support/seed.ts";

const CLIENTS = 6;
const CALLS = 60;
const BRANCHES = ["main", "a", "b", "c"];

/** One random call on a few branches, so that calls meet. */
const call: fc.Arbitrary<{ op: CallableOp; args: object }> = fc.tuple(
  fc.constantFrom(
    ...["open", "open", "close", "close", "flush", "fork", "fork", "destroy", "checkpoint", "checkout", "rollback"],
    ...["promote", "compact", "touch", "protect", "diff", "verify", "lease", "status", "status", "branches"],
  ),
  fc.constantFrom(...BRANCHES),
  fc.constantFrom(...BRANCHES),
  fc.boolean(),
).map(([op, branch, other, flag]) => {
  const on = { db: "app", branch };
  const args: Record<string, object> = {
    fork: { ...on, new_branch: other },
    checkpoint: { ...on, name: other },
    rollback: { ...on, to: other, safety: false, reopen: flag },
    promote: { ...on, onto: other, safety: false, reopen: flag },
    checkout: { ...on, force: flag },
    // Never main: with nothing left to fork, every later call would only learn that there is nothing.
    destroy: { db: "app", branch: branch === "main" ? "a" : branch, force: flag },
    protect: { ...on, on: flag },
    diff: { a: `app@${branch}`, b: `app@${other}` },
    status: flag ? on : {},
    branches: { db: "app" },
  };
  return { op: op as CallableOp, args: args[op] ?? on };
});

Deno.test("concurrent calls on the same branches answer as documented, and the daemon ends cleanly", async () => {
  const seed = testSeed(20260105);
  const [plans] = fc.sample(
    fc.array(fc.array(call, { minLength: CALLS, maxLength: CALLS }), { minLength: CLIENTS, maxLength: CLIENTS }),
    { numRuns: 1, seed },
  );
  await using place = new Place();
  await using daemon = await DaemonProcess.start(place, { flush_every_ms: 20 });
  {
    using client = await daemon.connect();
    await client.call("create", { db: "app" });
  }
  let done = 0;
  await Promise.all(plans!.map(async (plan) => {
    using client = await daemon.connect();
    for (const { op, args } of plan) {
      try {
        await client.call(op, args as never);
        done++;
      } catch (error) {
        const about = `${op} ${JSON.stringify(args)}: ${error}`;
        assert(error instanceof TaskdError && error.code !== "internal", about);
        assert([...OPS[op].errors, ...COMMON_ERRORS].includes(error.code), `${about} (${error.code})`);
      }
    }
  }));
  assertEquals(daemon.log.filter((line) => line.includes("defect")), []);
  {
    using client = await daemon.connect();
    for (const { branch, state } of (await client.call("branches", { db: "app" })).branches) {
      assert(state !== "error", branch);
      assertEquals((await client.call("verify", { db: "app", branch })).problems, []);
    }
  }
  assert(done > CLIENTS * CALLS / 5, `with seed ${seed} only ${done} calls did anything`);
  assertEquals(await daemon.stop(), 0);
});
