import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { TaskdError } from "../../lib/errors.ts";
import type { Operations } from "../plan/operations.ts";
import { Confirmations, type ConfirmedOp } from "./confirmations.ts";
import { TOOLS } from "./tools.ts";

/** A branch at a transaction; destroys are recorded. */
class OneBranch {
  txid = 3;
  readonly destroyed: object[] = [];
  ttl_ms: number | undefined;
  keep: string | undefined;
  readonly call = ((op: string, args: object) => {
    if (op !== "status") this.destroyed.push(args);
    const branch = {
      lineage: "a",
      txid: this.txid,
      checkpoints: [{}, {}],
      state: "idle",
      ttl_ms: this.ttl_ms,
      keep: this.keep,
    };
    return Promise.resolve(op === "status" ? { branch } : { db: "shop", branch: "try" });
  }) as unknown as Operations["call"];
}

let drawn = 0;
const random = (length: number) => new Uint8Array(length).fill(++drawn);

/** The confirmation that a refused call gives. */
async function refused(confirmations: Confirmations, ops: OneBranch, args: Record<string, unknown>): Promise<string> {
  const error = await assertRejects(() => confirmations.run("destroy", ops, args), TaskdError);
  assertEquals(error.code, "unconfirmed");
  return /confirmation: "(\w+)"/.exec(error.hint!)![1]!;
}

const CALL = { db: "shop", branch: "try" };

Deno.test("destroy takes a second call with what the first one answered, once", async () => {
  const [ops, confirmations] = [new OneBranch(), new Confirmations(random)];
  const error = await assertRejects(() => confirmations.run("destroy", ops, CALL), TaskdError);
  assertStringIncludes(error.message, "at transaction 3, with 2 checkpoints");
  assertStringIncludes(error.message, "kept as another branch");
  const confirmation = await refused(confirmations, ops, CALL);
  assertEquals(ops.destroyed, []);
  await confirmations.run("destroy", ops, { ...CALL, confirmation });
  assertEquals(ops.destroyed, [{ ...CALL, confirm: true }]);
  await refused(confirmations, ops, { ...CALL, confirmation });
  assertEquals(ops.destroyed.length, 1);
});

Deno.test("a confirmation is of the same arguments, and of the branch as it was", async () => {
  const [ops, confirmations] = [new OneBranch(), new Confirmations(random)];
  const confirmation = await refused(confirmations, ops, CALL);
  for (
    const args of [{ safety: false }, { force: true }, { branch: "other" }, { confirmation: "" }, { confirmation: 1 }]
  ) {
    await refused(confirmations, ops, { ...CALL, confirmation, ...args });
  }
  ops.txid++;
  await refused(confirmations, ops, { ...CALL, confirmation });
  ops.txid--;
  await refused(new Confirmations(random), ops, { ...CALL, confirmation });
  assertEquals(ops.destroyed, []);
  await confirmations.run("destroy", ops, { ...CALL, confirmation });
  const all = await assertRejects(() => confirmations.run("destroy", ops, { ...CALL, safety: false }), TaskdError);
  assertStringIncludes(all.message, "gone for good");
});

Deno.test("a flag that a model sets confirms nothing, and open confirmations are bounded", async () => {
  const [ops, confirmations] = [new OneBranch(), new Confirmations(random)];
  const error = await assertRejects(() => confirmations.run("destroy", ops, { ...CALL, confirm: true }), TaskdError);
  assertEquals(error.code, "invalid_request");
  const first = await refused(confirmations, ops, CALL);
  for (let at = 0; at < 100; at++) await refused(confirmations, ops, CALL);
  await refused(confirmations, ops, { ...CALL, confirmation: first });
  assertEquals(ops.destroyed, []);
  const { input_schema } = TOOLS.find(({ name }) => name === "destroy")!;
  const properties = Object.keys((input_schema as { properties: object }).properties);
  assertEquals([properties.includes("confirmation"), properties.includes("confirm")], [true, false]);
});

/** Calls that lose nothing, or leave what undo takes back, and the arguments with which they lose something. */
const LOSSY: [ConfirmedOp, object, object[]][] = [
  ["rollback", { to: "c" }, [{ safety: false }, { safety_ttl_ms: 1 }]],
  ["promote", { onto: "main" }, [{ safety: false }, { safety_ttl_ms: 1 }]],
  ["reset", {}, [{ safety: false }, { safety_ttl_ms: 1 }]],
  ["undo", {}, [{ safety: false }, { safety_ttl_ms: 1 }]],
  ["checkout", {}, [{ force: true }]],
  ["touch", { ttl_ms: 90, keep: "24h" }, [{ ttl_ms: 89 }, { keep: "none" }, { keep: "1h" }, { keep: null }]],
];

Deno.test("what can lose something takes two calls, and what cannot takes one", async () => {
  for (const [op, fields, lossy] of LOSSY) {
    const [ops, confirmations] = [new OneBranch(), new Confirmations(random)];
    [ops.ttl_ms, ops.keep] = [90, "1d"];
    await confirmations.run(op, ops, { ...CALL, ...fields });
    assertEquals(ops.destroyed.length, 1, op);
    for (const more of lossy) {
      const args = { ...CALL, ...fields, ...more };
      const before = ops.destroyed.length;
      const error = await assertRejects(() => confirmations.run(op, ops, args), TaskdError);
      assertEquals([error.code, ops.destroyed.length], ["unconfirmed", before], op);
      const confirmation = /confirmation: "(\w+)"/.exec(error.hint!)![1]!;
      // It is of this operation alone.
      await refused(confirmations, ops, { ...CALL, confirmation });
      await confirmations.run(op, ops, { ...args, confirmation });
      assertEquals(ops.destroyed.slice(before), [args], op);
    }
  }
});

Deno.test("every tool with an argument that gives up what is kept takes two calls", () => {
  for (const { name, input_schema } of TOOLS) {
    const properties = Object.keys((input_schema as { properties: object }).properties);
    const gives_up = properties.includes("safety") || name === "checkout" || name === "touch";
    assertEquals(properties.includes("confirmation"), gives_up, name);
  }
});
