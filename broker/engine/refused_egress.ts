/**
 * What the egress proxy refused to a task, for the person who wonders why a download failed.
 */

import type { EgressDecision } from "../egress/decision.ts";
import { REASONS } from "../egress/reasons.ts";
import type { RefusedEgress } from "../task/schema.ts";

const MAX_REFUSED = 50;

export function refusedBy(decisions: readonly EgressDecision[]): RefusedEgress {
  return decisions.filter(({ verdict }) => verdict !== "allowed").slice(-MAX_REFUSED).map((entry) => {
    const { text, hint } = REASONS[entry.reason];
    const target = entry.host === undefined ? "a target that is no host name" : `${entry.host}:${entry.port ?? "?"}`;
    const detail = entry.detail === undefined ? "" : ` (${entry.detail})`;
    return { target, reason: `${text}${detail}`, ...(hint === undefined ? {} : { hint }) };
  });
}
