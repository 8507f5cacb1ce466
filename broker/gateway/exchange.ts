/**
 * One request on its way: out with the real credential, back as it comes, metered as it
 * passes. However it ends, it is settled once.
 *
 * A client that goes away does not end it. The vendor bills what it generates, so the rest is read to learn the
 * figures, within bounds of time and bytes, and the request stays in flight until then.
 */

import type { ClientRequest, IncomingMessage, ServerResponse } from "node:http";
import type { Readable } from "node:stream";
import { type Clock, nextTurn } from "../../lib/clock.ts";
import type { MovingDeadline } from "../../lib/moving_deadlines.ts";
import { answerHeaders } from "./headers.ts";
import type { Claim, Ending, Settlement, TaskLease } from "./lease.ts";
import { UnreadableAnswer } from "./metering/answer_json.ts";
import { bound, estimated, type SentRequest } from "./metering/estimate.ts";
import { Meter } from "./metering/meter.ts";
import type { Metered } from "./metering/usage.ts";
import type { PriceBook } from "./prices.ts";
import type { Redactor } from "./redact.ts";
import { Refusal } from "./refusal.ts";
import type { CheckedBody } from "./fields/mod.ts";
import type { MemoryShare } from "./shared_memory.ts";
import type { MatchedRoute } from "./routes.ts";
import { codingsOf, MAX_UNPACKED_BYTES, unpacked } from "./unpack.ts";
import type { Credential, Upstream } from "./upstream.ts";

export interface ExchangeLimits {
  connect_ms: number;
  /** From there to the head of the answer; a long thought without a stream takes its time. */
  answer_ms: number;
  idle_ms: number;
  /** For the rest of an answer whose client is gone. */
  drain_ms: number;
  /** The same once its task has ended: neither a stop nor a kill waits for a vendor. */
  last_drain_ms: number;
  drain_bytes: number;
}

export const EXCHANGE_LIMITS: ExchangeLimits = {
  connect_ms: 15_000,
  answer_ms: 600_000,
  idle_ms: 300_000,
  drain_ms: 60_000,
  last_drain_ms: 10_000,
  drain_bytes: 32 << 20,
};

export interface ExchangeOptions {
  lease: TaskLease;
  claim: Claim;
  upstream: Upstream;
  prices: PriceBook;
  clock: Clock;
  deadline: MovingDeadline;
  /** What its task may hold of answers. */
  memory: MemoryShare;
  limits: ExchangeLimits;
  route: MatchedRoute;
  /** The model asked for, and what bounds the price; undefined for routes without a body. */
  asked: CheckedBody | undefined;
  body: Uint8Array | undefined;
  request: IncomingMessage;
  response: ServerResponse;
  /** Called once, after the claim is booked. */
  onSettled: (settlement: Settlement) => void;
}

/** Of all answers together that are held until an event, or an object, has come whole; a quarter of them for one task. */
export const MAX_HELD_ANSWER_BYTES = 256 << 20;
const BYTES_OF_CHAR = 2;

interface Charge {
  usd: number;
  unmetered: boolean;
  metered: Metered | undefined;
}

export class Exchange {
  readonly #options: ExchangeOptions;
  readonly #started_ms: number;
  #outgoing: ClientRequest | undefined;
  #incoming: IncomingMessage | undefined;
  /** The answer as it is read: unpacked where it came packed. */
  #source: Readable | undefined;
  #unpacked_bytes = 0;
  #held_bytes = 0;
  /** Undefined for an answer that is not metered, or of which nothing can be believed. */
  #meter: Meter | undefined;
  #status: number | undefined;
  #connected = false;
  /** Bytes of an answer have come although its head could not be read; the vendor may bill what it holds. */
  #head_is_lost = false;
  #client_gone = false;
  readonly #gone = Promise.withResolvers<undefined>();
  #drained_bytes = 0;
  #abort: () => void = () => {};
  #finish: () => void = () => {};

  constructor(options: ExchangeOptions) {
    this.#options = options;
    this.#started_ms = options.clock.monotonic();
  }

  /** Runs it until it is settled; throws a refusal while an answer can still be sent. */
  async run(): Promise<void> {
    const { response, lease, deadline, upstream } = this.#options;
    const { auth } = lease.options;
    const gone = () => this.#clientGone();
    response.once("close", gone);
    const ending = lease.ending.signal;
    const last = () => this.#client_gone && this.#boundDrain();
    ending.addEventListener("abort", last);
    try {
      let credential = await this.#unlessGone(upstream.credential(auth));
      if (credential === undefined) return;
      let incoming = await this.#send(credential);
      if (incoming.statusCode === 401 && auth === "subscription") {
        incoming.on("error", () => {});
        incoming.destroy();
        credential = await this.#unlessGone(upstream.renewed(credential));
        if (credential === undefined || ending.aborted) {
          // What goes out now would be billed, and its answer lost.
          this.#status = incoming.statusCode;
          this.#settle("client_gone");
          return;
        }
        incoming = await this.#send(credential);
      }
      await this.#pass(incoming, credential);
    } catch (error) {
      // Nothing of an answer has been seen. What never went out is not settled: its claim is withdrawn.
      if (this.#outgoing !== undefined) this.#settle("upstream_failed");
      this.#outgoing?.destroy();
      // A defect is logged also where no client waits.
      if (!this.#client_gone || !(error instanceof Refusal)) throw error;
    } finally {
      this.#hold(0);
      deadline.clear();
      response.off("close", gone);
      ending.removeEventListener("abort", last);
    }
  }

  #send(credential: Credential): Promise<IncomingMessage> {
    const { claim, upstream, route, body, request, lease, limits } = this.#options;
    return new Promise((resolve, reject) => {
      const outgoing = upstream.send(route, {
        headers: request.headers,
        body,
        credential,
        auth: lease.options.auth,
        onResponse: resolve,
      });
      this.#outgoing = outgoing;
      claim.markSent();
      const fail = (code: "upstream_failed" | "upstream_timeout", detail: string) => {
        reject(new Refusal(code, detail));
        outgoing.destroy();
      };
      this.#abort = () => fail("upstream_failed", "The client went away");
      let bytes_before = 0;
      outgoing.once("socket", (socket) => bytes_before = socket.bytesRead);
      outgoing.on("error", (error: { code?: unknown; rawPacket?: unknown }) => {
        this.#head_is_lost = (outgoing.socket?.bytesRead ?? 0) > bytes_before && !isRefusal(error.rawPacket);
        // Its message can quote the request; its code is a constant.
        const code = /^[A-Z][A-Z_]{2,40}$/.exec(String(error.code))?.[0] ?? "unknown cause";
        fail("upstream_failed", `The connection to the vendor's API failed (${code}); try again`);
      });
      outgoing.on("upgrade", (_response: IncomingMessage, socket: { destroy(): void }) => {
        socket.destroy();
        fail("upstream_failed", "The vendor's API answered with another protocol than was asked for");
      });
      this.#wait(limits.connect_ms, () => fail("upstream_timeout", "The vendor's API cannot be connected to"));
      outgoing.once("socket", (socket) => {
        const connected = () => {
          this.#connected = true;
          this.#wait(limits.answer_ms, () => fail("upstream_timeout", "The vendor's API has not answered in time"));
        };
        if (!socket.connecting) connected();
        else socket.once(upstream.readyEvent(lease.options.auth), connected);
      });
    });
  }

  /** The credential; undefined as soon as the client is gone, so that no stop waits for its renewal. */
  async #unlessGone(credential: Promise<Credential>): Promise<Credential | undefined> {
    const found = await Promise.race([credential, this.#gone.promise]);
    return this.#client_gone ? undefined : found;
  }

  #pass(incoming: IncomingMessage, credential: Credential): Promise<void> {
    const { route, limits, upstream } = this.#options;
    const status = incoming.statusCode ?? 0;
    if (status < 200 || status > 599) {
      throw new Refusal("upstream_failed", "The vendor's API answered with an invalid status");
    }
    const redactor = upstream.redactor(credential);
    this.#incoming = incoming;
    this.#status = status;
    const codings = codingsOf(incoming);
    const source = this.#source = unpacked(incoming, codings);
    if (source === undefined) {
      throw new Refusal("upstream_failed", "The vendor's API answered in a coding that was not asked for");
    }
    const { "content-type": type = "" } = incoming.headers;
    if (route.row.usage && status < 300) this.#meter = new Meter(route.row.usage, type);
    if (!this.#client_gone) this.#writeHead(status, incoming, { redactor, is_packed: codings.length > 0 });
    return new Promise((resolve, reject) => {
      this.#finish = resolve;
      // Out of a handler, an error would end the whole broker.
      const guarded = (run: () => void) => {
        try {
          run();
        } catch (error) {
          this.#meter = undefined;
          const is_foreseen = error instanceof UnreadableAnswer || error instanceof Refusal;
          this.#broken("cut_off", is_foreseen ? this.#finish : () => reject(error));
        }
      };
      source.on("data", (chunk: Uint8Array) => guarded(() => this.#chunk(chunk, redactor)));
      source.once("end", () => guarded(() => this.#ended(redactor)));
      source.on("error", () => this.#broken("upstream_failed"));
      incoming.on("error", () => {});
      incoming.once("close", () => {
        if (!incoming.complete) this.#broken("upstream_failed");
      });
      this.#wait(limits.idle_ms, () => this.#broken("cut_off"));
    });
  }

  #writeHead(status: number, incoming: IncomingMessage, passing: { redactor: Redactor; is_packed: boolean }): void {
    const { response } = this.#options;
    const { redactor, is_packed } = passing;
    const headers: Record<string, string | string[]> = {};
    for (const [name, value] of Object.entries(answerHeaders(incoming.headers))) {
      // Names come in small letters, whatever the vendor wrote.
      if (redactor.hasSecret(name) || (is_packed && name === "content-encoding")) continue;
      headers[name] = Array.isArray(value) ? value.map((each) => redactor.text(each)) : redactor.text(value);
    }
    const length = is_packed ? undefined : incoming.headers["content-length"];
    if (length !== undefined) headers["content-length"] = length;
    response.writeHead(status, headers);
    // A stream's first event mostly comes with the head, and then goes out with it in one piece.
    if (length === undefined) void nextTurn().then(() => response.flushHeaders());
  }

  #chunk(chunk: Uint8Array, redactor: Redactor): void {
    const { response, limits, deadline } = this.#options;
    if (this.#meter !== undefined) {
      this.#meter.push(chunk);
      this.#hold(this.#meter.held_chars * BYTES_OF_CHAR);
    }
    if (this.#source !== this.#incoming && (this.#unpacked_bytes += chunk.length) > MAX_UNPACKED_BYTES) {
      this.#broken("cut_off");
      return;
    }
    // Before the client sees it: a client takes the last event for the end and sends its next request.
    if (this.#meter?.done) this.#settle("complete");
    if (this.#client_gone) {
      this.#drained_bytes += chunk.length;
      if (this.#drained_bytes > limits.drain_bytes) this.#broken("cut_off");
      return;
    }
    const clean = redactor.push(chunk);
    if (clean.length === 0 || response.write(clean)) {
      this.#wait(limits.idle_ms, () => this.#broken("cut_off"));
      return;
    }
    const source = this.#source!;
    source.pause();
    // The connection has a deadline of its own for what its client does not read.
    deadline.clear();
    response.once("drain", () => {
      this.#wait(limits.idle_ms, () => this.#broken("cut_off"));
      source.resume();
    });
  }

  /** Throws `overloaded` where the task, or all, hold too much of answers. */
  #hold(bytes: number): void {
    const { memory } = this.#options;
    if (bytes > this.#held_bytes) memory.reserve(bytes - this.#held_bytes);
    else memory.release(this.#held_bytes - bytes);
    this.#held_bytes = bytes;
  }

  #ended(redactor: Redactor): void {
    this.#meter?.end();
    this.#settle(this.#client_gone ? "client_gone" : "complete");
    if (this.#client_gone) return this.#finish();
    const { response, deadline } = this.#options;
    deadline.clear();
    response.once("close", this.#finish);
    response.once("finish", this.#finish);
    response.end(redactor.end());
  }

  /** The answer will not be whole; the client learns it from the connection. */
  #broken(ending: Ending, finish: () => void = this.#finish): void {
    try {
      this.#meter?.end();
    } catch {
      this.#meter = undefined;
    }
    this.#settle(ending);
    this.#source?.destroy();
    this.#incoming?.destroy();
    this.#outgoing?.destroy();
    this.#options.response.destroy();
    finish();
  }

  #clientGone(): void {
    if (this.#options.response.writableFinished || this.#client_gone) return;
    this.#client_gone = true;
    this.#gone.resolve(undefined);
    // The vendor has seen nothing yet: it bills nothing, and its answer is not needed.
    if (this.#outgoing !== undefined && !this.#connected) {
      this.#settle("client_gone");
      this.#abort();
      return;
    }
    this.#boundDrain();
    this.#source?.resume();
  }

  #boundDrain(): void {
    const { lease, limits, deadline } = this.#options;
    const ms = lease.ending.signal.aborted ? limits.last_drain_ms : limits.drain_ms;
    deadline.set(ms, () => this.#broken("cut_off"));
  }

  /** Moves the deadline; that of a client who went away stands. */
  #wait(ms: number, expired: () => void): void {
    if (!this.#client_gone) this.#options.deadline.set(ms, expired);
  }

  #settle(ending: Ending): void {
    const { claim, lease, route, asked, clock } = this.#options;
    if (claim.settled) return;
    const { task_id, lane, auth } = lease.options;
    const { usd, unmetered, metered } = this.#charged(ending);
    const settlement: Settlement = {
      task_id,
      lane,
      auth,
      route: route.row.name,
      model: asked?.model,
      status: this.#status,
      ending,
      usd,
      unmetered,
      held_usd: claim.held_usd,
      metered,
      duration_ms: clock.monotonic() - this.#started_ms,
    };
    claim.settle(settlement);
    this.#options.onSettled(settlement);
  }

  #charged(ending: Ending): Charge {
    try {
      return this.#charge(ending);
    } catch {
      this.#meter = undefined;
      return this.#charge(ending);
    }
  }

  /** What it costs, and whether the vendor may bill something else. */
  #charge(ending: Ending): Charge {
    const { lease: { options: { lane } }, prices, route, asked, body } = this.#options;
    if (!route.row.usage || asked === undefined) return { usd: 0, unmetered: false, metered: undefined };
    const request = { ...asked, body_bytes: body?.length ?? 0 };
    const most = () => prices.boundOf(lane, asked.model, bound(request)) ?? 0;
    if (this.#status === undefined) {
      // A vendor at work may go on to the end although no client waits any more. One that broke off has sent no bill so far.
      const usd = ending === "cut_off" || this.#head_is_lost ? most() : 0;
      return { usd, unmetered: this.#connected, metered: undefined };
    }
    if (this.#status >= 300) return { usd: 0, unmetered: false, metered: undefined };
    if (this.#meter === undefined) return { usd: most(), unmetered: true, metered: undefined };
    const settled = this.#metered(this.#meter, { ending, asked, request, most });
    // Held was the most that it can cost; anything less could be overshot where it is not known to be all.
    const { auth, strict } = this.#options.lease.options;
    if (!settled.unmetered || strict === undefined || auth === "subscription") return settled;
    return { ...settled, usd: Math.max(settled.usd, most()) };
  }

  /** The same of an answer that was read. */
  #metered(
    meter: Meter,
    of: { ending: Ending; asked: CheckedBody; request: SentRequest; most: () => number },
  ): { usd: number; unmetered: boolean; metered: Metered } {
    const { lease: { options: { lane } }, prices } = this.#options;
    const { ending, asked, request, most } = of;
    const metered = meter.metered();
    const whole = ending === "complete" || ending === "client_gone";
    const reading = meter.reading();
    switch (!whole && reading === "unreadable" ? "cut" : reading) {
      case "unreadable":
        return { usd: most(), unmetered: true, metered };
      case "silent":
        return { usd: 0, unmetered: !metered.complete, metered };
      case "cut": {
        const seen_usd = prices.costOf(lane, asked.model, metered) ?? 0;
        const usd = prices.costOf(
          lane,
          asked.model,
          estimated(metered, { ...request, wants_usage: asked.wants_usage, ...meter.seen }),
        ) ?? 0;
        return { usd: Math.max(seen_usd, Math.min(usd, most())), unmetered: true, metered };
      }
      case "metered": {
        const usd = prices.costOf(lane, asked.model, metered);
        return { usd: usd ?? 0, unmetered: !whole || usd === undefined || !metered.complete, metered };
      }
    }
  }
}

/** Whether what begins an answer says all the same that it is a refusal, which is not billed. */
function isRefusal(packet: unknown): boolean {
  return packet instanceof Uint8Array &&
    /^HTTP\/1\.[01] [3-5]\d\d\b/.test(new TextDecoder().decode(packet.subarray(0, 16)));
}
