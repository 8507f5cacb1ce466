/**
 * Runs decoded requests. Every transport hands its requests to one {@linkcode Dispatcher}, so that all of them check,
 * run, answer and fail alike. It counts what is running, so that a shutdown can wait for it.
 */

import { asKnownError, stackOf, TaskdError } from "../lib/errors.ts";
import { type DecodedRequest, failure, type RawRequest, success } from "../lib/protocol/codec.ts";
import type { CallableOp, OpAnswer, OpArgs } from "../lib/protocol/messages.ts";
import { OPS } from "../lib/protocol/operations.ts";
import { isOpName, parseArgs } from "../lib/protocol/parse_args.ts";
import type { LongOptions } from "../lib/store/results.ts";
import type { DaemonLog } from "./log.ts";

export type Handlers = {
  readonly [O in CallableOp]: (args: OpArgs<O>, long?: LongOptions) => Promise<OpAnswer<O>>;
};

export class Dispatcher {
  readonly #handlers: Handlers;
  readonly #log: DaemonLog;
  #running = 0;
  #idle = Promise.withResolvers<void>();
  #stopping = false;

  constructor(handlers: Handlers, log: DaemonLog) {
    this.#handlers = handlers;
    this.#log = log;
    this.#idle.resolve();
  }

  /** Runs a request; resolves with its answer as it is sent; never rejects. */
  async run({ id, request }: DecodedRequest, long?: LongOptions): Promise<object> {
    if (request instanceof TaskdError) return failure(id, request);
    if (this.#running++ === 0) this.#idle = Promise.withResolvers();
    try {
      return success(id, await this.#handle(request, long));
    } catch (error) {
      if (asKnownError(error) === undefined) this.#log(`defect: op=${JSON.stringify(request.op)} ${stackOf(error)}`);
      return failure(id, error);
    } finally {
      if (--this.#running === 0) this.#idle.resolve();
    }
  }

  /** What a well-formed `subscribe` asks for; undefined for other requests. A malformed one is for {@linkcode run}. */
  subscription({ request }: DecodedRequest): OpArgs<"subscribe"> | undefined {
    if (request instanceof TaskdError || request.op !== "subscribe" || this.#stopping) return undefined;
    try {
      return parseArgs("subscribe", request.fields);
    } catch {
      return undefined;
    }
  }

  /** Refuses what comes from now on, and resolves when nothing is running any more. */
  stop(): Promise<void> {
    this.#stopping = true;
    return this.#idle.promise;
  }

  #handle({ op, fields }: RawRequest, long: LongOptions | undefined): Promise<object> {
    if (!isOpName(op)) {
      throw new TaskdError("unknown_op", `Cannot run ${JSON.stringify(op.slice(0, 100))}: no such operation`, {
        hint: `Operations are ${Object.keys(OPS).join(", ")}`,
      });
    }
    const args = parseArgs(op, fields);
    if (this.#stopping) throw new TaskdError("stopping", `Cannot run ${op}: the daemon is shutting down`);
    if (op === "subscribe") {
      throw new TaskdError("invalid_request", "Cannot subscribe here", { hint: "Use GET /events, or the unix socket" });
    }
    return (this.#handlers[op] as (args: object, long?: LongOptions) => Promise<object>)(args, long);
  }
}
