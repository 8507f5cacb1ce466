/**
 * A row of the table of routes: what it takes, what it answers, and who answers it.
 */

import type * as v from "valibot";
import type { BodySchema } from "./bodies.ts";
import type { Call, Query, QuerySchemas } from "./call.ts";
import type { RouteRights } from "./rights.ts";

export interface HttpRoute extends RouteRights {
  readonly method: "GET" | "POST";
  /** Parameters of the URL that it takes, each of which may be absent unless it is `required`. */
  readonly query?: QuerySchemas;
  /** Of these, those that must be there. */
  readonly required?: readonly string[];
  readonly body?: BodySchema;
  /** Whether an empty body stands for an empty object. */
  readonly body_optional?: true;
  readonly answer: RouteAnswer;
  readonly doc: string;
  readonly run: (call: Call) => Response | Promise<Response>;
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
