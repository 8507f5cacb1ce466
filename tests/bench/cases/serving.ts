/**
 * What a daemon with many sessions and many subscribers costs.
 */

import { join } from "@std/path/join";
import type { Client } from "../../../lib/client/client.ts";
import type { DaemonProcess } from "../../../cli/demo/own_process.ts";
import { subscribe } from "../../../lib/client/client.ts";
import { openStore } from "../../../lib/store/open.ts";
import type { Bench, BenchCase } from "../bench.ts";
import type { Place } from "../file_systems.ts";
import { freePort, pause, processorShare, residentBytes } from "../process.ts";
import { startStore } from "../store_daemon.ts";
import { elapsed, sample } from "../stats.ts";

const DB = "small";
const TOKEN = "of-benchmarks-only";
const MIB = 2 ** 20;
/** Events published before waiting for all subscribers: less than a subscriber's buffer, so that none is dropped. */
const ROUND_EVENTS = 60;

/** A store with one small database, and a daemon on it that listens for HTTP. */
async function startDaemon(place: Place): Promise<{ daemon: DaemonProcess<Client>; url: string; socket: string }> {
  const store = join(place.dir, "store");
  {
    using made = await openStore(store, { holder: "bench" });
    await made.create(DB);
  }
  const socket = join(place.dir, "d.sock");
  const address = `127.0.0.1:${freePort()}`;
  const flags = ["-http", address, "-token", TOKEN];
  const daemon = await startStore({ store, socket, flags });
  return { daemon, url: `http://${address}`, socket };
}

async function openSessions({ client }: DaemonProcess<Client>, from: number, to: number): Promise<void> {
  for (let index = from; index < to; index++) {
    await client.call("fork", { db: DB, new_branch: `s${index}` });
    await client.call("open", { db: DB, branch: `s${index}` });
  }
}

/** Sessions that do nothing, and what it costs to ask about all of them. */
export const sessions: BenchCase = {
  name: "sessions",
  title: "Holding and scraping sessions",
  method:
    "Each session has a branch and an empty database of its own; the daemon runs with its defaults. Processor time is read over ten seconds of rest. A scrape is one GET /metrics, which asks every session.",
  places: "once",
  async run(bench, place) {
    const { daemon, url } = await startDaemon(place);
    await using _daemon = daemon;
    let open = 0;
    for (const target of bench.pick([500, 1_000], [10, 20])) {
      await openSessions(daemon, open, target);
      open = target;
      await pause(bench.pick(3_000, 200));
      const share = await processorShare(daemon.pid, bench.pick(10, 1));
      bench.add(place, `one core, ${target} sessions`, "%", [share]);
      bench.add(place, `memory, ${target} sessions`, "MB", [await residentBytes(daemon.pid) / MIB]);
      const scrape = () => elapsed(() => get(`${url}/metrics`));
      const samples = bench.pick(40, 5);
      bench.add(place, `scrape, ${target} sessions`, "ms", await sample(scrape, { samples }));
    }
    await daemon.stop();
  },
};

/** How fast events reach many subscribers. */
export const events: BenchCase = {
  name: "events",
  title: "Events to many subscribers",
  method:
    "Manual flushes of an idle session publish one event each; half of the subscribers are on the socket and half on GET /events, all in the measuring process, which is most of the cost. An event counts once, however many receive it.",
  places: "once",
  async run(bench, place) {
    const { daemon, url, socket } = await startDaemon(place);
    await using _daemon = daemon;
    await openSessions(daemon, 0, 1);
    const count = bench.pick(100, 10);
    for (const subscribers of [1, count]) {
      bench.add(
        place,
        `events to ${subscribers}`,
        "events/s",
        await rates(bench, { daemon, url, socket }, subscribers),
      );
    }
    await daemon.stop();
  },
};

async function rates(
  bench: Bench,
  { daemon, url, socket }: { daemon: DaemonProcess<Client>; url: string; socket: string },
  subscribers: number,
): Promise<number[]> {
  const leave = new AbortController();
  const counters: Counter[] = [];
  for (let index = 0; index < subscribers; index++) {
    const counter = new Counter();
    if (index % 2 === 0) await overSocket(socket, counter, leave.signal);
    else await overHttp(url, counter, leave.signal);
    counters.push(counter);
  }
  const flush = () => daemon.client.call("flush", { db: DB, branch: "s0" });
  let published = 0;
  const round = async () => {
    published += ROUND_EVENTS;
    const took_ms = await elapsed(async () => {
      await Promise.all(Array.from({ length: ROUND_EVENTS }, flush));
      await Promise.all(counters.map((counter) => counter.reached(published)));
    });
    return 1_000 * ROUND_EVENTS / took_ms;
  };
  const samples = await sample(round, { samples: bench.pick(50, 5) });
  leave.abort();
  return samples;
}

/** Counts events and resolves when enough have come. */
class Counter {
  #seen = 0;
  #more = Promise.withResolvers<void>();

  add(count: number): void {
    this.#seen += count;
    this.#more.resolve();
    this.#more = Promise.withResolvers();
  }

  async reached(count: number): Promise<void> {
    while (this.#seen < count) await this.#more.promise;
  }
}

async function overSocket(socket: string, counter: Counter, signal: AbortSignal): Promise<void> {
  const subscribed = Promise.withResolvers<void>();
  const stream = subscribe(socket, { signal, onSubscribed: subscribed.resolve });
  (async () => {
    for await (const _event of stream) counter.add(1);
  })().catch(subscribed.reject);
  await subscribed.promise;
}

async function overHttp(url: string, counter: Counter, signal: AbortSignal): Promise<void> {
  const response = await fetch(`${url}/events`, { headers: { authorization: `Bearer ${TOKEN}` }, signal });
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  // The first bytes say that the subscription is there.
  await reader.read();
  (async () => {
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      counter.add(part.value.split("\ndata: ").length - 1);
    }
  })().catch(() => {
    // It was left.
  });
}

async function get(url: string): Promise<void> {
  const response = await fetch(url, { headers: { authorization: `Bearer ${TOKEN}` } });
  if (!response.ok) throw new Error(`${url} answered ${response.status}`);
  await response.text();
}
