/** What of a route decides who may use it. */

/**
 * What a client needs to be let in to a route: `read` changes nothing, `submit` begins tasks, `approve` decides about
 * tasks and ends them, `own` is for who owns the unix socket, `session` for a browser on the listener of the pages.
 */
export type Right = "health" | "metrics" | "read" | "submit" | "approve" | "own" | "session";

export interface RouteRights {
  readonly path: string;
  readonly right: Right;
  /** Whether it may end a task, which is an operator's to do at whatever path. */
  readonly ends_tasks?: true;
  /** A route of the pages' listener alone, and what it is asked with: a one-time code, or the token of a session. */
  readonly pages?: "code" | "token";
}

/** Whether a route is an operator's: then, over TCP, only for peers on this machine. */
export function isAdmin({ path, ends_tasks }: Pick<RouteRights, "path" | "ends_tasks">): boolean {
  return ends_tasks === true || path.startsWith("/admin/");
}
