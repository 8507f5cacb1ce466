/**
 * The people of a soak run: they submit and queue tasks, follow them, approve, deny, end and cancel, come back after the
 * broker was gone, and remember the answers. Every answer that the contract does not foresee is a complaint.
 */

import type { PendingTask } from "../../broker/api/wire.ts";
import { BrokerClient } from "../../broker/client/client.ts";
import { systemClock } from "../../lib/clock.ts";
import { type ErrorCode, TaskdError } from "../../lib/errors.ts";
import type { SeededRandom } from "../support/writers/random.ts";
import { instructionOf, planOf, tagOf } from "./plan.ts";

/** A task that a client submitted. */
export interface Order {
  tag: string;
  via: "submit" | "queue";
  /** `unknown`: the broker was gone before it answered. */
  fate: "unknown" | "refused" | "accepted";
  /** Of the task, or of the queue's item. */
  id?: string;
}

/** What people did at a gate, and elsewhere with a task. */
export interface Decisions {
  /** Digests that were sent in approvals which may have arrived. */
  approvals_sent: string[];
  approved: boolean;
  denial_sent: boolean;
  denied: boolean;
  end_sent: boolean;
  ended: boolean;
}

/** What a follower of a task saw. */
export interface Following {
  id: string;
  /** Numbers of the rows, as they came. */
  rows: number[];
  stages: string[];
  results: string[];
  over: boolean;
}

/** What the run needs of its people. */
export interface ClientsOptions {
  socket: string;
  seed: number;
  random: SeededRandom;
  repos: readonly string[];
  /** Resolves when a broker serves. */
  up: () => Promise<void>;
  /** Whether nothing new is begun any more. */
  isOver: () => boolean;
}

/** The broker is gone, or going. */
const GONE: readonly ErrorCode[] = ["broker_unreachable", "stopping", "unavailable"];
const BUSY: readonly ErrorCode[] = ["at_capacity", "ceiling_reached"];

/** All clients. */
export class Clients {
  readonly orders: Order[] = [];
  readonly decisions = new Map<string, Decisions>();
  readonly followings: Following[] = [];
  /** Answers that no client should get. */
  readonly complaints: string[] = [];
  /** How often what was said. */
  readonly counts = new Map<string, number>();
  readonly client: BrokerClient;
  readonly #options: ClientsOptions;
  readonly #deciding = new Set<string>();
  readonly #following: Promise<void>[] = [];
  readonly #staring: Deno.Conn[] = [];
  #number = 0;

  constructor(options: ClientsOptions) {
    this.#options = options;
    this.client = new BrokerClient({ socket: options.socket });
  }

  #count(what: string): void {
    this.counts.set(what, (this.counts.get(what) ?? 0) + 1);
  }

  /** The answer, or the error that the broker gave; only those with a code in `foreseen` are nothing to complain of. */
  async #ask<T>(what: string, call: () => Promise<T>, foreseen: readonly ErrorCode[] = []): Promise<T | TaskdError> {
    await this.#options.up();
    try {
      const answer = await call();
      this.#count(what);
      return answer;
    } catch (error) {
      if (!(error instanceof TaskdError)) throw error;
      this.#count(`${what}: ${error.code}`);
      if (!GONE.includes(error.code) && !foreseen.includes(error.code)) {
        this.complaints.push(`${what} was answered with ${error.code}: ${error.message}`);
      }
      if (GONE.includes(error.code)) await systemClock.sleep(50);
      return error;
    }
  }

  #order(via: Order["via"]): { order: Order; request: { repo: string; instruction: string } } {
    const tag = tagOf(this.#options.seed, ++this.#number);
    const order: Order = { tag, via, fate: "unknown" };
    this.orders.push(order);
    const repo = this.#options.random.pick(this.#options.repos);
    return { order, request: { repo, instruction: instructionOf(planOf(tag)) } };
  }

  /** Puts `count` tasks into the queue. */
  async enqueue(count: number): Promise<void> {
    const { random, isOver } = this.#options;
    for (let sent = 0; sent < count && !isOver(); sent++) {
      const { order, request } = this.#order("queue");
      const answer = await this.#ask("queue", () => this.client.enqueue(request));
      if (answer instanceof TaskdError) order.fate = GONE.includes(answer.code) ? "unknown" : "refused";
      else Object.assign(order, { fate: "accepted", id: answer.id });
      if (random.chance(0.1)) await systemClock.sleep(random.between(1, 300));
    }
  }

  /** Submits one task after the other, as slots are free. */
  async submit(): Promise<void> {
    const { random, isOver } = this.#options;
    while (!isOver()) {
      const { order, request } = this.#order("submit");
      const answer = await this.#ask("submit", () => this.client.submit(request), BUSY);
      if (answer instanceof TaskdError) {
        order.fate = GONE.includes(answer.code) ? "unknown" : "refused";
        await systemClock.sleep(random.between(200, 2_000));
        continue;
      }
      Object.assign(order, { fate: "accepted", id: answer.id });
      if (random.chance(0.4)) this.#following.push(this.#follow(answer.id));
      if (random.chance(0.1)) await this.#stare(answer.id);
      await systemClock.sleep(random.between(50, 1_500));
    }
  }

  async #follow(id: string): Promise<void> {
    const { random, up } = this.#options;
    const seen: Following = { id, rows: [], stages: [], results: [], over: false };
    this.followings.push(seen);
    while (seen.results.length === 0) {
      await up();
      // Now and then a follower leaves and comes back.
      let left = random.chance(0.5) ? random.between(1, 30) : Infinity;
      try {
        for await (const event of this.client.events(id, { after: seen.rows.at(-1) ?? 0 })) {
          if (event.id !== undefined) seen.rows.push(event.id);
          if (event.event === "stage") seen.stages.push(event.data.stage);
          if (event.event === "result") seen.results.push(event.data.outcome);
          if (--left <= 0) break;
        }
      } catch (error) {
        if (!(error instanceof TaskdError)) throw error;
        this.#count(`events: ${error.code}`);
        if (!GONE.includes(error.code)) this.complaints.push(`events of ${id}: ${error.code}: ${error.message}`);
        await systemClock.sleep(50);
      }
    }
    seen.over = true;
    this.#count("followed to the end");
  }

  /** Opens a stream of events and never reads a byte of it; the broker has to do without. */
  async #stare(id: string): Promise<void> {
    try {
      const conn = await Deno.connect({ transport: "unix", path: this.#options.socket });
      this.#staring.push(conn);
      await conn.write(new TextEncoder().encode(`GET /tasks/${id}/events HTTP/1.1\r\nHost: taskd.invalid\r\n\r\n`));
      this.#count("stares");
    } catch {
      // No broker is there just now.
    }
  }

  /** Those who stare go home. */
  stopWatching(): void {
    for (const conn of this.#staring) conn.close();
  }

  /** Every follower has seen a result. */
  async followed(): Promise<void> {
    await Promise.all(this.#following);
  }

  /** Looks at the gate and decides, until `done`. */
  async decide(done: () => boolean): Promise<void> {
    const { random } = this.#options;
    while (!done()) {
      const pending = await this.#ask("pending", () => this.client.pending());
      if (pending instanceof TaskdError) continue;
      const open = pending.filter(({ id }) => !this.#deciding.has(id));
      if (open.length === 0) {
        await systemClock.sleep(random.between(50, 400));
        continue;
      }
      const task = random.pick(open);
      this.#deciding.add(task.id);
      const again = await this.#decideOn(task);
      if (again) this.#deciding.delete(task.id);
    }
  }

  /** Whether it has to be decided on again. */
  async #decideOn(task: PendingTask): Promise<boolean> {
    const { random } = this.#options;
    const { id, gate } = task;
    const decisions = this.#decisionsOn(id);
    const race: ErrorCode[] = ["wrong_state", "expired"];
    const roll = random.next();
    // Left to the gate's own time limit.
    if (roll < 0.04) return false;
    if (roll < 0.16) {
      decisions.denial_sent = true;
      const answer = await this.#ask("deny", () => this.client.deny(id, "not needed"), race);
      if (!(answer instanceof TaskdError)) decisions.denied = true;
      return answer instanceof TaskdError && GONE.includes(answer.code);
    }
    if (roll < 0.22) return await this.#end(id);
    const approve = async (diff_sha256: string, acknowledge: string[], foreseen: ErrorCode[]) =>
      await this.#ask("approve", () => this.client.approve(id, { diff_sha256, acknowledge }), foreseen);
    if (roll < 0.3) {
      const stale = await approve("0".repeat(64), gate.second_look, [...race, "stale_diff"]);
      if (!(stale instanceof TaskdError)) this.complaints.push(`${id}: a diff that no person has seen was approved`);
    }
    if (gate.second_look.length > 0 && random.chance(0.5)) {
      const blind = await approve(gate.diff_sha256, [], [...race, "not_acknowledged"]);
      if (!(blind instanceof TaskdError)) this.complaints.push(`${id}: was approved without the second look`);
    }
    decisions.approvals_sent.push(gate.diff_sha256);
    const answer = await approve(gate.diff_sha256, gate.second_look, race);
    if (answer instanceof TaskdError) return GONE.includes(answer.code);
    decisions.approved = true;
    if (random.chance(0.3)) {
      const twice = await approve(gate.diff_sha256, gate.second_look, race);
      if (!(twice instanceof TaskdError)) this.complaints.push(`${id}: was approved twice`);
    }
    return false;
  }

  #decisionsOn(id: string): Decisions {
    const known = this.decisions.get(id);
    if (known !== undefined) return known;
    const none = {
      approvals_sent: [],
      approved: false,
      denial_sent: false,
      denied: false,
      end_sent: false,
      ended: false,
    };
    this.decisions.set(id, none);
    return none;
  }

  /** Whether it has to be tried again. */
  async #end(id: string): Promise<boolean> {
    const decisions = this.#decisionsOn(id);
    decisions.end_sent = true;
    const answer = await this.#ask("kill", () => this.client.kill(id, "in the way"), ["wrong_state"]);
    if (!(answer instanceof TaskdError)) decisions.ended = true;
    return answer instanceof TaskdError && GONE.includes(answer.code);
  }

  /** Ends tasks and cancels items, whatever they are doing. */
  async disturb(): Promise<void> {
    const { random, isOver } = this.#options;
    while (!isOver()) {
      await systemClock.sleep(random.between(500, 3_000));
      if (random.chance(0.5)) {
        const list = await this.#ask("tasks", () => this.client.tasks({ limit: 100 }));
        if (list instanceof TaskdError) continue;
        const running = list.tasks.filter(({ stage }) => stage !== "done");
        if (running.length > 0) await this.#end(random.pick(running).id);
        continue;
      }
      const items = await this.#ask("queue list", () => this.client.queue());
      if (items instanceof TaskdError) continue;
      const open = items.filter(({ state }) => state === "queued" || state === "running");
      if (open.length === 0) continue;
      const { id } = random.pick(open);
      await this.#ask("queue cancel", () => this.client.cancelQueued(id), ["wrong_state"]);
    }
  }
}
