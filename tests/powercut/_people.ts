/**
 * The people of a broker whose power is cut: they submit, queue, look, approve, deny, end and cancel, and remember what
 * they were shown and what was confirmed to them.
 */

import type { BrokerClient } from "../../broker/client/client.ts";
import { systemClock } from "../../lib/clock.ts";
import { type ErrorCode, TaskdError } from "../../lib/errors.ts";
import { sha256Hex } from "../../lib/sha256.ts";
import { instructionOf, planOf, tagOf } from "../soak/plan.ts";
import type { SeededRandom } from "../support/writers/random.ts";

/** What a person did about a task: `sent` when no answer came. */
type Deed = "none" | "sent" | "confirmed";

/** What was shown of a task, and done about it. */
export interface Seen {
  stages: Set<string>;
  outcome?: string;
  usd: number;
  /** Digests of the gate and of the diff that was shown at it. */
  gate?: string;
  diff?: string;
  approve: Deed;
  deny: Deed;
  end: Deed;
}

/** What was shown of an item of the queue. */
export interface SeenItem {
  state: string;
  cancel: Deed;
}

/** States that an item keeps. */
const FINAL = ["completed", "ci_failed", "cancelled", "dead_letter"];
/** Refusals that anyone has to expect. */
const EXPECTED: readonly ErrorCode[] = ["wrong_state", "at_capacity", "not_found", "conflict"];
/** The broker is gone, or its disk. */
const GONE: readonly ErrorCode[] = ["broker_unreachable", "stopping", "unavailable", "interrupted"];

/** All of them. */
export class People {
  readonly tasks = new Map<string, Seen>();
  readonly items = new Map<string, SeenItem>();
  /** The most that the ceiling's page has shown. */
  readonly ceiling = { spent_usd: 0, starts: 0 };
  /** Confirmations. */
  readonly acks: string[] = [];
  readonly complaints: string[] = [];
  readonly #client: BrokerClient;
  readonly #seed: number;
  readonly #repos: readonly string[];
  readonly #onAck: (what: string) => void;
  #number = 0;
  #over = false;

  /** Prepares them; `onAck` receives the name of everything that was confirmed or shown for the first time. */
  constructor(client: BrokerClient, seed: number, repos: readonly string[], onAck: (what: string) => void) {
    this.#client = client;
    this.#seed = seed;
    this.#repos = repos;
    this.#onAck = onAck;
  }

  /** They begin nothing more, and expect no answer. */
  end(): void {
    this.#over = true;
  }

  /** They go on with the next broker. */
  goOn(): void {
    this.#over = false;
  }

  async #ask<T>(what: string, call: () => Promise<T>): Promise<T | undefined> {
    try {
      const answer = await call();
      // An fsync that is under way when a file system is ended may report success: no machine without power says so.
      return this.#over ? undefined : answer;
    } catch (error) {
      if (!(error instanceof TaskdError)) throw error;
      if (!this.#over && !EXPECTED.includes(error.code) && !GONE.includes(error.code)) {
        this.complaints.push(`${what}: ${error.code}: ${error.message}`);
      }
      if (GONE.includes(error.code)) await systemClock.sleep(20);
      return undefined;
    }
  }

  #confirmed(what: string): void {
    this.acks.push(what);
    this.#onAck(what);
  }

  /** What is known of a task. */
  #seen(id: string): Seen {
    const seen = this.tasks.get(id) ?? { stages: new Set(), usd: 0, approve: "none", deny: "none", end: "none" };
    this.tasks.set(id, seen);
    return seen;
  }

  #request(random: SeededRandom) {
    // Some plans write nothing, or more than fits into a run this short.
    let tag: string;
    do tag = tagOf(this.#seed, ++this.#number); while (![1, 2, 3, 4].includes(planOf(tag).files.size));
    return { repo: random.pick(this.#repos), instruction: instructionOf({ ...planOf(tag), streams: [] }) };
  }

  /** Submits up to `count` tasks. */
  async submit(random: SeededRandom, count: number): Promise<void> {
    for (let sent = 0; sent < count && !this.#over; sent++) {
      const request = this.#request(random);
      const answer = await this.#ask("submit", () => this.#client.submit(request));
      if (answer !== undefined) {
        this.#seen(answer.id).stages.add(answer.stage);
        this.#confirmed("submit");
      }
      await systemClock.sleep(random.between(0, 800));
    }
  }

  /** Queues up to `count` tasks, and takes one off the queue now and then. */
  async enqueue(random: SeededRandom, count: number): Promise<void> {
    for (let sent = 0; sent < count && !this.#over; sent++) {
      const request = this.#request(random);
      const answer = await this.#ask("queue", () => this.#client.enqueue(request));
      if (answer === undefined) continue;
      const item: SeenItem = { state: answer.state, cancel: "none" };
      this.items.set(answer.id, item);
      this.#confirmed("queue");
      await systemClock.sleep(random.between(0, 800));
      if (!random.chance(0.3) || this.#over) continue;
      item.cancel = "sent";
      const cancelled = await this.#ask("cancel", () => this.#client.cancelQueued(answer.id).then(() => true));
      if (cancelled) {
        item.cancel = "confirmed";
        this.#confirmed("cancel");
      } else if (!this.#over) item.cancel = "none";
    }
  }

  /** Looks at everything that is shown, again and again. */
  async look(): Promise<void> {
    while (!this.#over) {
      await this.lookOnce();
      await systemClock.sleep(40);
    }
  }

  /** Looks at everything that is shown. */
  async lookOnce(): Promise<void> {
    const list = await this.#ask("tasks", () => this.#client.tasks({ limit: 100 }));
    for (const { id, stage, outcome, spend, live } of list?.tasks ?? []) {
      const seen = this.#seen(id);
      if (!seen.stages.has(stage)) this.#onAck(`saw ${stage}`);
      seen.stages.add(stage);
      if (outcome !== undefined) seen.outcome = outcome;
      seen.usd = Math.max(seen.usd, spend?.usd ?? 0, live?.usd ?? 0);
    }
    const ceiling = await this.#ask("ceiling", () => this.#client.ceiling());
    // A broker that outlives its disk counts what it cannot write: a ceiling is kept all the same.
    if (this.#over) return;
    this.ceiling.spent_usd = Math.max(this.ceiling.spent_usd, ceiling?.spent_usd ?? 0);
    this.ceiling.starts = Math.max(this.ceiling.starts, ceiling?.starts ?? 0);
    for (const { id, state } of await this.#ask("queue list", () => this.#client.queue()) ?? []) {
      const item = this.items.get(id) ?? { state, cancel: "none" };
      this.items.set(id, item);
      if (!FINAL.includes(item.state)) item.state = state;
    }
  }

  /** Decides on what waits at the gate, until the power goes; `approving` approves everything. */
  async decide(random: SeededRandom, approving: boolean, isOver = () => this.#over): Promise<void> {
    while (!this.#over && !isOver()) {
      for (const { id, gate } of await this.#ask("pending", () => this.#client.pending()) ?? []) {
        const seen = this.#seen(id);
        seen.stages.add("awaiting_approval");
        seen.gate = gate.diff_sha256;
        const diff = await this.#ask("diff", () => this.#client.diff(id));
        if (diff !== undefined) seen.diff = sha256Hex(diff.bytes);
        // Now and then it waits for the next broker.
        const roll = approving ? 1 : random.next();
        if (roll < 0.3 || this.#over) continue;
        if (roll < 0.45) await this.#deed(seen, "deny", () => this.#client.deny(id, "not needed"));
        else if (roll < 0.5) await this.#deed(seen, "end", () => this.#client.kill(id, "in the way"));
        else {
          const request = { diff_sha256: gate.diff_sha256, acknowledge: gate.second_look };
          await this.#deed(seen, "approve", () => this.#client.approve(id, request));
        }
      }
      await systemClock.sleep(random.between(10, 200));
    }
  }

  async #deed(seen: Seen, what: "approve" | "deny" | "end", call: () => Promise<void>): Promise<void> {
    const before = seen[what];
    seen[what] = "sent";
    const done = await this.#ask(what, () => call().then(() => true));
    if (done) {
      seen[what] = "confirmed";
      this.#confirmed(what);
    } else if (!this.#over) seen[what] = before === "none" ? "sent" : before;
  }
}
