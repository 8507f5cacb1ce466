/** Promises that hold on every machine alike, and the attacks on them; the tests beside this try them. */

import { GATE_PROMISES } from "./approval_gate.ts";
import { LEDGER_PROMISES } from "./ceilings.ts";
import type { CommonPromise } from "./context.ts";
import { CONTROL_PROMISES } from "./control_listeners.ts";
import { DISPLAY_PROMISES } from "./display.ts";
import { PASSING_PROMISES } from "./egress_content.ts";
import { EGRESS_PROMISES } from "./egress_destinations.ts";
import { MADE_PROMISES } from "./files_made.ts";
import { LIMIT_PROMISES } from "./gateway_limits.ts";
import { GATEWAY_PROMISES } from "./gateway_requests.ts";
import { SOURCE_PORT_PROMISES } from "./source_ports.ts";

export const COMMON_GROUPS: Readonly<Record<string, string>> = {
  egress: "The egress proxy",
  gateway: "The model gateway",
  control: "The control interface and its records",
  files: "Files and their modes",
  display: "What a person reads",
};

export const COMMON_PROMISES: readonly CommonPromise[] = [
  ...EGRESS_PROMISES,
  ...PASSING_PROMISES,
  ...GATEWAY_PROMISES,
  ...LIMIT_PROMISES,
  ...CONTROL_PROMISES,
  ...SOURCE_PORT_PROMISES,
  ...GATE_PROMISES,
  ...LEDGER_PROMISES,
  ...MADE_PROMISES,
  ...DISPLAY_PROMISES,
];
