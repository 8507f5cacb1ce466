/**
 * What a caller of the broker's HTTP interface waits for: a task to be accepted, its events, its push.
 */

import { join } from "@std/path/join";
import { BrokerClient } from "../../../broker/client/client.ts";
import { writeFileAtomic } from "../../../lib/fs.ts";
import { plainGit } from "../../broker/git/bench.ts";
import type { Bench, BenchCase } from "../bench.ts";
import { EVENTS_SERVER, type EventsServer } from "../broker_events_server.ts";
import { helperProcess } from "../helper.ts";
import type { Place } from "../file_systems.ts";
import { elapsed, interleave, sample } from "../stats.ts";
import { type WholeBroker, wholeBroker } from "./_broker.ts";

/** Events of a round. */
const ROUND_EVENTS = 50;

/** The case. */
export const api: BenchCase = {
  name: "api",
  title: "Speak to the broker",
  method:
    "A broker started by `taskd start`, its unix socket, a local bare repository and the embedded runtime, one task after the other. `submit` is answered once the task's first row is on the disk; " +
    "beside it, a file of 1 KB made durable by write, fsync and rename. `approve to pushed` ends when the stream of events reports the result; beside it, `git push` of a commit by hand. Events are rows of a trace, each of them durable before " +
    "it is sent, over streams of server-sent events of one task to clients in the measuring process; an event counts once, however many receive it.",
  places: "plain",
  async run(bench, place) {
    await tasks(bench, place);
    await events(bench, place);
  },
};

async function tasks(bench: Bench, place: Place): Promise<void> {
  await using broker = await wholeBroker(place, "deno");
  const { client, git } = broker;
  const by_hand = await handPusher(git);
  const taken: Record<"submit" | "gate" | "pushed", number[]> = { submit: [], gate: [], pushed: [] };
  const others = await interleave({
    health: () => elapsed(() => client.health()),
    durable: (round) =>
      elapsed(() => writeFileAtomic(join(place.dir, `durable-${round}`), new Uint8Array(1_024), 0o600)),
    by_hand,
    task: async (round) => {
      const times = await oneTask(broker);
      if (round >= 0) { for (const name of ["submit", "gate", "pushed"] as const) taken[name].push(times[name]); }
      return times.pushed;
    },
  }, { samples: bench.pick(30, 3) });
  bench.add(place, "GET /healthz", "ms", others.health!);
  bench.add(place, "file made durable", "ms", others.durable!);
  bench.add(place, "submit, to the answer 202", "ms", taken.submit, { beside: "file made durable" });
  bench.add(place, "submit, to the gate", "ms", taken.gate);
  bench.add(place, "git push by hand", "ms", others.by_hand!);
  bench.add(place, "approve to pushed", "ms", taken.pushed, { beside: "git push by hand" });
}

/** The way of one task, in milliseconds. */
async function oneTask({ client, git, reachesGate }: WholeBroker) {
  const start = performance.now();
  const { id } = await client.submit({ repo: git.origin, instruction: "Say hello" });
  const submit = performance.now() - start;
  await reachesGate(id);
  const gate = performance.now() - start;
  const { diff_sha256, second_look } = (await client.task(id)).gate!;
  const approving = performance.now();
  const result = (async () => {
    for await (const event of client.events(id)) if (event.event === "result") return event.data;
  })();
  await client.approve(id, { diff_sha256, acknowledge: second_look });
  const ended = await result;
  if (ended?.outcome !== "pushed") throw new Error(`the task ended as ${ended?.outcome}: ${ended?.reason}`);
  return { submit, gate, pushed: performance.now() - approving };
}

/** Pushes a new commit to a branch of its own, as a person would. */
async function handPusher({ origin, root }: WholeBroker["git"]): Promise<(round: number) => Promise<number>> {
  const clone = join(root, "by-hand");
  await plainGit(root, "clone", "--quiet", origin, clone);
  return async (round) => {
    await Deno.writeTextFile(join(clone, "hello.txt"), `hello ${round}\n`);
    await plainGit(clone, "add", "-A");
    await plainGit(clone, "commit", "--quiet", "-m", `hello ${round}`);
    return await elapsed(() => plainGit(clone, "push", "--quiet", origin, `HEAD:refs/heads/by-hand-${round + 10}`));
  };
}

async function events(bench: Bench, place: Place): Promise<void> {
  await using server = await helperProcess(EVENTS_SERVER, [join(place.dir, "events")]);
  for (const subscribers of [1, 100]) {
    const rates = await eventRates(bench, server.reported, subscribers);
    bench.add(place, `events to ${subscribers}`, "events/s", rates, { beside: "events to 1" });
  }
}

async function eventRates(
  bench: Bench,
  { socket, rows_url, id }: EventsServer,
  subscribers: number,
): Promise<number[]> {
  const leave = new AbortController();
  const client = new BrokerClient({ socket });
  const after = (await client.task(id)).seq;
  const seen = new Array<number>(subscribers).fill(after);
  let expected = Infinity;
  let all = Promise.withResolvers<void>();
  const following = seen.map(async (_, index) => {
    try {
      for await (const { id: seq = 0 } of client.events(id, { after, signal: leave.signal })) {
        seen[index] = seq;
        if (seq >= expected && seen.every((each) => each >= expected)) all.resolve();
      }
    } catch (error) {
      if (!leave.signal.aborted) all.reject(error);
    }
  });
  let at = after;
  const round = async () => {
    at += ROUND_EVENTS;
    expected = at;
    all = Promise.withResolvers();
    const took_ms = await elapsed(async () => {
      await fetch(`${rows_url}/${ROUND_EVENTS}`, { method: "POST" }).then((answer) => answer.body?.cancel());
      await all.promise;
    });
    return 1_000 * ROUND_EVENTS / took_ms;
  };
  const rates = await sample(round, { samples: bench.pick(20, 3) });
  leave.abort();
  await Promise.all(following);
  return rates;
}
