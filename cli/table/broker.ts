/**
 * The commands that set the task broker up, start and stop it, and explain it.
 *
 * @module
 */

export { BROKER_ADMIN_COMMANDS as BROKER_COMMANDS } from "./broker_admin.ts";
