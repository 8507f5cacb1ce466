/**
 * A broker's admission in a process of its own, to be killed: starts and ends tasks as fast
 * as they are written down, and prints the id of each that is.
 */

import { Admission } from "../../../broker/admission/admission.ts";
import { DEFAULTS, figures, settlement, someId, START } from "./site.ts";

const [audit_root = "", seed = "0"] = Deno.args;
const admission = await Admission.open({
  audit_root,
  settings: { ...DEFAULTS, global_budget_usd: 1e6, global_max_tasks: 1e6, global_window: 0 },
});
// Ids come from a seed; those of earlier processes are used up.
for (let used = Number(seed) * 10_000; used > 0; used--) someId();
for (;;) {
  const claim = admission.claim(START);
  const id = someId();
  Deno.writeTextFileSync(`${audit_root}/${id}.jsonl`, "");
  claim.begin(id, new Date().toISOString());
  admission.settled(settlement(id, 1));
  await claim.end({ outcome: "pushed", ended_at: new Date().toISOString(), spend: figures(1) });
  console.log(id);
}
