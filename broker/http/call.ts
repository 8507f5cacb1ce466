/**
 * One request on its way through a route: what it asks for, read once and checked.
 */

import * as v from "valibot";
import type { Clock } from "../../lib/clock.ts";
import { TaskdError } from "../../lib/errors.ts";
import type { RequestConnection } from "../../lib/http/node_messages.ts";
import { nearest } from "../../lib/text/nearest.ts";
import type { BrokerEngine } from "../api/engine.ts";
import { answer } from "./answers.ts";
import { type BodySchema, readBody } from "./bodies.ts";
import type { ApiTokens } from "./api_tokens.ts";
import type { Admitted, ListenerPolicy } from "./listener_policy.ts";
import type { PageSessions } from "./page_sessions.ts";
import { type Pieces, pullStream } from "./pull_stream.ts";

export interface CallContext {
  engine: BrokerEngine;
  clock: Clock;
  listener: ListenerPolicy;
  connection: RequestConnection;
  ending: AbortSignal;
  body_deadline_ms: number;
  /** An address of the web pages that begins one session. */
  uiAddress(): string;
  /** The session or the token, on the listeners that ask for one. */
  admitted: Admitted;
  tokens: ApiTokens;
  sessions: PageSessions;
  /** Where tokens are asked for, if anywhere. */
  api_addr: string | null;
}

/** Parameters of the URL: text, or whole numbers. The message of a schema says what a parameter must be. */
export type QuerySchemas = Readonly<Record<string, v.GenericSchema>>;
export type Query<Q extends QuerySchemas> = { readonly [N in keyof Q]?: v.InferOutput<Q[N]> };

export class Call {
  readonly request: Request;
  readonly context: CallContext;
  /** What the path has in the place of `<id>`; empty for a path without. */
  readonly id: string;
  readonly #query: URLSearchParams;

  constructor(request: Request, context: CallContext, { id, query }: { id: string; query: URLSearchParams }) {
    this.request = request;
    this.context = context;
    this.id = id;
    this.#query = query;
  }

  get engine(): BrokerEngine {
    return this.context.engine;
  }

  /** The whole id of the task that the path names by any unique prefix; throws as `TaskStore.resolve`. */
  task(): string {
    return this.engine.tasks.resolve(this.id);
  }

  /** Refuses parameters of the URL but these, and those that stand twice. */
  onlyQuery(known: readonly string[]): void {
    for (const name of this.#query.keys()) {
      if (known.includes(name) && this.#query.getAll(name).length === 1) continue;
      const shown = JSON.stringify(name.slice(0, 200));
      const problem = known.includes(name) ? `${shown} stands in it twice` : `it has no parameter ${shown}`;
      const guess = nearest(name, known);
      throw new TaskdError("invalid_request", `Cannot take the address: ${problem}`, {
        ...(known.includes(name) || guess === undefined ? {} : { hint: `Did you mean ${JSON.stringify(guess)}?` }),
      });
    }
  }

  /** The parameters of the URL that are there, as their schemas take them; throws `invalid_request`. */
  query<Q extends QuerySchemas>(schemas: Q): Query<Q> {
    const found = Object.entries(schemas).filter(([name]) => this.#query.has(name)).map(([name, schema]) => {
      const text = this.#query.get(name)!;
      const value = schema.type === "number" && /^\d{1,15}$/.test(text) ? Number(text) : text;
      const parsed = v.safeParse(schema, value, { abortEarly: true });
      if (parsed.success) return [name, parsed.output];
      throw new TaskdError("invalid_request", `Cannot take the address: ${name} ${parsed.issues[0].message}`);
    });
    return Object.fromEntries(found);
  }

  /** The body; throws as {@linkcode readBody}. */
  body<S extends BodySchema>(schema: S, options: { optional?: boolean } = {}): Promise<v.InferOutput<S>> {
    const { connection, clock, body_deadline_ms } = this.context;
    return readBody(this.request, schema, { connection, clock, deadline_ms: body_deadline_ms, ...options });
  }

  /**
   * An answer that comes in pieces.
   *
   * @param endless Whether it may wait for things to happen: it has then no deadline but that of a stalled reader.
   */
  stream(make: Pieces, { type, endless }: { type: string; endless: boolean }): Response {
    const { connection, ending, admitted: { session, token } } = this.context;
    if (endless) connection.streaming();
    const credential = session ?? token;
    const held: Pieces = async function* (signal) {
      const release = credential?.hold();
      try {
        yield* make(signal);
      } finally {
        release?.();
      }
    };
    const over = credential === undefined ? ending : AbortSignal.any([ending, credential.ended]);
    return answer(pullStream(held, over), { "content-type": type, "x-accel-buffering": "no" });
  }
}
