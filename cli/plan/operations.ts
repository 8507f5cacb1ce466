/**
 * The operations that commands ask for, by name: answered by the daemon behind its socket, or by the store in this
 * process, with the same results.
 */

import { TaskdError } from "../../lib/errors.ts";
import type { Client } from "../../lib/client/client.ts";
import type { AnyDaemonEvent, CallableOp, OpAnswer, OpArgs, OpName } from "../../lib/protocol/messages.ts";
import type { OnProgress } from "../../lib/store/results.ts";
import type { Store } from "../../lib/store/store.ts";
import type { Plan } from "./plan.ts";

/** Done on the store though a daemon is alive: they read or write files of the caller's, or read every stored byte. */
const ALWAYS_AT_REST: ReadonlySet<OpName> = new Set(["create", "export", "verify", "verify-all", "repair"]);

/** The operations on the store of a plan; modules are loaded when they are first needed. */
export class Operations {
  readonly #plan: Plan;
  readonly #signal: AbortSignal;
  #client: Promise<Client> | undefined;
  #store: Promise<Store> | undefined;

  private constructor(plan: Plan, signal: AbortSignal) {
    this.#plan = plan;
    this.#signal = signal;
  }

  /** Connects to the daemon, or opens the store, as the plan's route says. */
  static async open(plan: Plan, signal: AbortSignal): Promise<Operations> {
    const operations = new Operations(plan, signal);
    if (plan.route === "store") await operations.store();
    else await operations.#connected();
    return operations;
  }

  get hasDaemon(): boolean {
    return this.#client !== undefined;
  }

  /** Runs an operation; an interrupt ends it early, also in the daemon. */
  async call<O extends CallableOp>(op: O, args: OpArgs<O>, onProgress?: OnProgress): Promise<OpAnswer<O>> {
    // A server of tools has the store alone: files elsewhere are those of the daemon.
    const elsewhere = this.#plan.command === "mcp" && op === "create" && "from" in args;
    const client = ALWAYS_AT_REST.has(op) && !elsewhere ? undefined : await this.#daemon();
    if (client !== undefined) return await client.call(op, args, onProgress);
    if (elsewhere) {
      throw new TaskdError("denied", "Cannot read that file: taskd mcp uses none outside of the store", {
        hint: "Run taskd serve --files DIRECTORY beside it: the daemon uses the files below that",
      });
    }
    const store = await this.store();
    const { callAtRest } = await import("../../lib/protocol/at_rest.ts");
    const long = { signal: this.#signal, ...(onProgress === undefined ? {} : { onProgress }) };
    return await callAtRest({ store, location: this.#plan.store }, op, args, long);
  }

  /** The daemon, if it does the work. A server of tools outlives daemons: it looks for one whenever it has none. */
  async #daemon(): Promise<Client | undefined> {
    const { command, workspace, flags } = this.#plan;
    if (this.#client !== undefined || command !== "mcp") return await this.#client;
    const { readDaemonInfo } = await import("../../lib/store/daemon_lock.ts");
    const live = flags.socket !== null || (await readDaemonInfo(workspace))?.socket !== undefined;
    return live ? await this.#connected() : undefined;
  }

  #connected(): Promise<Client> {
    const ended = () => this.#client = undefined;
    return this.#client ??= (async () => {
      const { connect } = await import("../../lib/client/client.ts");
      const client = await connect(this.#plan.socket, { signal: this.#signal });
      if (this.#plan.command === "mcp") client.closed().then(ended);
      return client;
    })().catch((error) => {
      ended();
      throw error;
    });
  }

  /** The daemon's events from now on; with `more` those of the further types, too. */
  async *events(more: boolean, onSubscribed: () => void): AsyncGenerator<AnyDaemonEvent, void, void> {
    if (this.#client === undefined) throw (await import("../../lib/protocol/at_rest.ts")).noDaemon();
    const { subscribe } = await import("../../lib/client/client.ts");
    yield* subscribe(this.#plan.socket, { signal: this.#signal, onSubscribed, more });
  }

  /** The store in this process; made, if the call makes stores. */
  store(): Promise<Store> {
    return this.#store ??= openPlanned(this.#plan).catch((error) => {
      // A server of tools goes on: its next call tries again.
      this.#store = undefined;
      throw error;
    });
  }

  async close(): Promise<void> {
    (await this.#client)?.close();
    (await this.#store)?.close();
  }
}

async function openPlanned({ command, store, workspace, s3, machine, makes_store = false }: Plan): Promise<Store> {
  const { openStore } = await import("../../lib/store/open.ts");
  return await openStore(store, {
    holder: "cli",
    host: machine,
    create: makes_store,
    damaged: command === "repair",
    ...(s3 === undefined ? {} : { workspace, s3: s3.options }),
  });
}
