/**
 * Every promise, in the order in which they are tried: what `taskd redteam` runs and docs/explanation/threat_model.md lists.
 */

import { EGRESS_PROMISES } from "./egress_destinations.ts";
import { PASSING_PROMISES } from "./egress_content.ts";
import { CONTAINER_PROMISES } from "./container_sandboxes.ts";
import { CONTROL_PROMISES } from "./control_listeners.ts";
import { DISPLAY_PROMISES } from "./display.ts";
import { EMBEDDED_PROMISES } from "./embedded_sandbox.ts";
import { GATE_PROMISES } from "./approval_gate.ts";
import { GATEWAY_PROMISES } from "./gateway_requests.ts";
import { LIMIT_PROMISES } from "./gateway_limits.ts";
import { GIT_PROMISES } from "./git_work_tree.ts";
import { LEDGER_PROMISES } from "./ceilings.ts";
import { FILE_PROMISES } from "./file_modes.ts";
import type { SecurityPromise } from "./security_promise.ts";

export const PROMISES: readonly SecurityPromise[] = [
  ...EGRESS_PROMISES,
  ...PASSING_PROMISES,
  ...GATEWAY_PROMISES,
  ...LIMIT_PROMISES,
  ...GIT_PROMISES,
  ...EMBEDDED_PROMISES,
  ...CONTAINER_PROMISES,
  ...CONTROL_PROMISES,
  ...GATE_PROMISES,
  ...LEDGER_PROMISES,
  ...FILE_PROMISES,
  ...DISPLAY_PROMISES,
];
