/**
 * The databases that a task asks for, and the names that follow: of its branch in the store, of the copy that its
 * sandbox sees, of the variable with its path.
 */

import { TaskdError } from "../../lib/errors.ts";
import { parseAddress } from "../../lib/store/names.ts";
import { MAX_DATABASES } from "../task/schema.ts";

/** Where a container sees its databases. */
export const DATABASES_MOUNT = "/databases";

export interface RequestedDatabase {
  db: string;
  base: string;
}

/** Branch of a task, and the checkpoint that names what waits at the gate. */
export function branchOf(task_id: string): string {
  return `task-${task_id}`;
}

export function taskOf(branch: string): string | undefined {
  return /^task-([0-9a-f]{32})$/.exec(branch)?.[1];
}

export function fileOf(db: string): string {
  return `${db}.db`;
}

export function variableOf(db: string): string {
  return `TASKD_DATABASE_${db.toUpperCase().replaceAll(/[^A-Z0-9]/g, "_")}`;
}

/** Reads what a request has in `databases`: `shop`, or `shop@dev`; throws `invalid_request`. */
export function parseRequested(texts: readonly string[]): RequestedDatabase[] {
  if (texts.length > MAX_DATABASES) refuse(`${texts.length} databases are more than ${MAX_DATABASES}`, "Name fewer");
  const variables = new Map<string, string>();
  return texts.map((text) => {
    const { db, branch, checkpoint } = addressOf(text);
    if (checkpoint !== undefined) {
      refuse(`${text} names a checkpoint, onto which nothing can be promoted`, "Name a branch: <db>@<branch>");
    }
    if (taskOf(branch) !== undefined) {
      refuse(`${text} is the branch of a task, which goes when the task ends`, "Name another branch");
    }
    const other = variables.get(variableOf(db));
    if (other !== undefined) {
      refuse(
        other === db ? `${db} is named twice` : `${other} and ${db} would both be ${variableOf(db)}`,
        "A task works on one branch of a database",
      );
    }
    variables.set(variableOf(db), db);
    return { db, base: branch };
  });
}

function addressOf(text: string) {
  try {
    return parseAddress(text);
  } catch (error) {
    if (!(error instanceof TaskdError)) throw error;
    return refuse(error.message, error.hint ?? "Name a database, or <db>@<branch>");
  }
}

function refuse(why: string, hint: string): never {
  throw new TaskdError("invalid_request", `Cannot take the task: ${why}`, { hint });
}
