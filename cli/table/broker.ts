/**
 * The commands that set the task broker up, start and stop it, explain it, and attack it.
 *
 * @module
 */

import type { CommandSpec } from "../command.ts";
import { BROKER_ADMIN_COMMANDS } from "./broker_admin.ts";
import { REDTEAM_COMMANDS } from "./redteam.ts";

/** Commands of the group Broker. */
export const BROKER_COMMANDS: readonly CommandSpec[] = [...BROKER_ADMIN_COMMANDS, ...REDTEAM_COMMANDS];
