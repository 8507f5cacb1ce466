/** Promises of the ceilings and of what they are counted by. */

import { Admission, type AdmissionOptions } from "../../broker/admission/admission.ts";
import { ledgerPath } from "../../broker/admission/ledger_file.ts";
import { newTaskId } from "../../broker/task/ids.ts";
import type { AttackContext, CommonPromise } from "./context.ts";

const START = { lane: "vendor_a", auth: "api_key", agent: "agent_a" } as const;
const SETTINGS: AdmissionOptions["settings"] = {
  max_concurrent_tasks: 100,
  aggregate_budget_usd: 0,
  aggregate_window: 86_400_000,
  global_budget_usd: 10,
  global_max_tasks: 200,
  global_window: 0,
  vendor_a_auth: "api_key",
  vendor_b_auth: "api_key",
};

/** An audit directory with a ledger of one finished start that has cost a dollar. */
async function site(context: AttackContext): Promise<string> {
  const audit_root = await context.folder();
  const admission = await Admission.open({ audit_root, settings: SETTINGS, clock: context.clock });
  const claim = admission.claim(START);
  const at = new Date(context.clock.now()).toISOString();
  claim.begin(newTaskId(context.random), at);
  const spend = { usd: 1, requests: 1, unmetered_requests: 0, input_tokens: 1, output_tokens: 1, priced: true };
  await claim.end({ outcome: "pushed", ended_at: at, spend });
  await admission.close();
  return audit_root;
}

/** Whether a start is admitted by what is in the directory. */
async function admits(
  context: AttackContext,
  audit_root: string,
  changes: Partial<AdmissionOptions["settings"]> = {},
): Promise<boolean> {
  const admission = await context.surfaces.admission({
    audit_root,
    settings: { ...SETTINGS, ...changes },
    clock: context.clock,
  });
  try {
    admission.claim(START).abandon();
    return true;
  } catch {
    return false;
  } finally {
    await admission.close();
  }
}

/** Ways to make a ledger show less than happened. */
const DAMAGE: Readonly<Record<string, (path: string) => void | Promise<void>>> = {
  "a line that is no JSON": (path) => Deno.writeTextFileSync(path, "\0\0 not JSON\n", { append: true }),
  "a line of nothing": (path) => Deno.writeTextFileSync(path, "{}\n", { append: true }),
  "a line cut in its middle": (path) => Deno.truncateSync(path, Math.floor(Deno.statSync(path).size / 2)),
  "a negative amount": (path) =>
    Deno.writeTextFileSync(path, Deno.readTextFileSync(path).replace(/"usd":1\b/, '"usd":-1000')),
  "an amount that is text": (path) =>
    Deno.writeTextFileSync(path, Deno.readTextFileSync(path).replace(/"usd":1\b/, '"usd":"0"')),
  "a directory in its place": (path) => (Deno.removeSync(path), Deno.mkdirSync(path)),
  "a link in its place": async (path) => {
    await Deno.remove(path);
    await Deno.symlink("/dev/null", path);
  },
  "larger than any ledger": (path) => Deno.truncateSync(path, 2 ** 30),
};

export const LEDGER_PROMISES: readonly CommonPromise[] = [
  {
    id: "control.damaged_ledger",
    promise: "A ledger that is damaged or cannot be read refuses starts; it never makes room",
    attacks: Object.keys(DAMAGE).join(", "),
    async run(trial, context) {
      trial.control("a start with a sound ledger", await admits(context, await site(context)));
      for (const [what, damage] of Object.entries(DAMAGE)) {
        const audit_root = await site(context);
        await damage(ledgerPath(audit_root));
        trial.attempt(what, !await admits(context, audit_root), "a start was admitted");
      }
    },
  },
  {
    id: "control.spent_ceiling",
    promise: "A ceiling that is reached refuses starts, and a new start of the broker does not forget it",
    attacks: "A start beyond the budget, a start beyond the number, each by another broker on the same records",
    async run(trial, context) {
      const audit_root = await site(context);
      const spent = { "beyond the budget": { global_budget_usd: 0.5 }, "beyond the number": { global_max_tasks: 1 } };
      for (const [what, changes] of Object.entries(spent)) {
        trial.attempt(what, !await admits(context, audit_root, changes), "it was admitted");
      }
      trial.control("a start below both", await admits(context, audit_root));
    },
  },
];
