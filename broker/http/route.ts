/**
 * A row of the table of routes: what it takes, what it answers, and who answers it.
 */

import type * as v from "valibot";
import type { BodySchema } from "./bodies.ts";
import type { Call, Query, QuerySchemas } from "./call.ts";

/**
 * What a client needs to be let in to a route: `read` changes nothing, `submit` begins tasks, `approve` decides about
 * tasks and ends them, `own` is for who owns the unix socket, `session` for a browser on the listener of the pages.
 */
export type Right = "health" | "metrics" | "read" | "submit" | "approve" | "own" | "session";

export interface HttpRoute {
  readonly method: "GET" | "POST";
  readonly path: string;
  readonly right: Right;
  /** Parameters of the URL that it takes, each of which may be absent unless it is `required`. */
  readonly query?: QuerySchemas;
  /** Of these, those that must be there. */
  readonly required?: readonly string[];
  readonly body?: BodySchema;
  /** Whether an empty body stands for an empty object. */
  readonly body_optional?: true;
  /** Whether it may end a task, which is an operator's to do at whatever path. */
  readonly ends_tasks?: true;
  /** A route of the pages' listener alone, and what it is asked with: a one-time code, or the token of a session. */
  readonly pages?: "code" | "token";
  readonly answer: RouteAnswer;
  readonly doc: string;
  readonly run: (call: Call) => Response | Promise<Response>;
}

/** Whether a route is an operator's: then only for peers on this machine. */
export function isAdmin({ path, ends_tasks }: Pick<HttpRoute, "path" | "ends_tasks">): boolean {
  return ends_tasks === true || path.startsWith("/admin/");
}

/** What a route answers when all is well: JSON of a schema, another type, or nothing. */
export type RouteAnswer =
  | { readonly status: 200 | 202; readonly schema: v.GenericSchema }
  | { readonly status: 200; readonly type: string }
  | { readonly status: 204 };

/** A route's parameters of the URL and its handler, which gets those that are there. */
export function asks<Q extends QuerySchemas>(
  query: Q,
  handle: (call: Call, query: Query<Q>) => Response | Promise<Response>,
): Pick<HttpRoute, "query" | "run"> {
  return { query, run: (call) => handle(call, call.query(query)) };
}

export type ReadBody<S extends BodySchema> = () => Promise<v.InferOutput<S>>;

/** A route's body and its handler, which reads the body when it has checked what comes first. */
export function takes<S extends BodySchema>(
  schema: S,
  handle: (call: Call, body: ReadBody<S>) => Promise<Response>,
  options: { optional?: true } = {},
): Pick<HttpRoute, "body" | "body_optional" | "run"> {
  return {
    body: schema,
    ...(options.optional === undefined ? {} : { body_optional: true }),
    run: (call) => handle(call, () => call.body(schema, options)),
  };
}
