/**
 * The commands that give the task broker work, watch it and decide about it: clients of its socket.
 *
 * @module
 */

import type { CommandSpec } from "../command.ts";

/** Commands of the group Tasks. */
export const TASK_COMMANDS: readonly CommandSpec[] = [];
