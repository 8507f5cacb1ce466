/**
 * The commands that set the task broker up, start and stop it, and explain it.
 *
 * @module
 */

import type { CommandSpec } from "../command.ts";

/** Commands of the group Broker. */
export const BROKER_COMMANDS: readonly CommandSpec[] = [];
