/**
 * What the daemon and the program cost as processes.
 */

import { join } from "@std/path/join";
import { ownCommand } from "../../../cli/table/own_command.ts";
import type { BenchCase } from "../bench.ts";
import { pause, processorShare, residentBytes, run, TASKD_ENTRY } from "../process.ts";
import { startStore } from "../store_daemon.ts";
import { elapsed, interleave, type Measure } from "../stats.ts";
import { DB, shopStore } from "./_store.ts";

const MIB = 2 ** 20;

/** Many sessions that do nothing. */
export const idle: BenchCase = {
  name: "idle",
  title: "Idle sessions in one daemon",
  method:
    "Each session has a branch and a 12 MB file of its own. The daemon runs with its defaults; its processor time is read over half a minute.",
  places: "once",
  async run(bench, place) {
    const sessions = bench.pick(500, 20);
    if (!place.clones && sessions > 100) {
      return bench.skip(`${sessions} sessions`, "their files cannot share blocks here");
    }
    const shop = await shopStore(bench, place, 12);
    if (shop === undefined) return;
    await using daemon = await startStore({ store: shop.dir, socket: join(place.dir, "d.sock") });
    const bare_mb = await residentBytes(daemon.pid) / MIB;
    const names = Array.from({ length: sessions }, (_, index) => `idle-${index}`);
    const opening = await elapsed(async () => {
      for (const branch of names) {
        await daemon.client.call("fork", { db: DB, new_branch: branch });
        await daemon.client.call("open", { db: DB, branch });
      }
    });
    await pause(3_000);
    const share = await processorShare(daemon.pid, bench.pick(30, 3));
    bench.add(place, "memory, no session", "MB", [bare_mb]);
    const resident_mb = await residentBytes(daemon.pid) / MIB;
    bench.add(place, `memory, ${sessions} sessions`, "MB", [resident_mb], { target: { value: 1_024, is: "at_most" } });
    bench.add(place, `one core, ${sessions} sessions`, "%", [share], { target: { value: 5, is: "at_most" } });
    bench.add(place, "fork + open of each", "ms", [opening / sessions]);
    const closing = await elapsed(() => daemon.stop());
    bench.add(place, "stop, flushing and closing all", "s", [closing / 1_000]);
  },
};

/** Starting up. */
export const startup: BenchCase = {
  name: "startup",
  title: "Start the program",
  method: "`deno, empty` is Deno running an empty module; `taskd session status` asks a daemon over its socket.",
  places: "once",
  async run(bench, place) {
    const shop = await shopStore(bench, place, 12);
    if (shop === undefined) return;
    const empty = join(place.dir, "empty.ts");
    await Deno.writeTextFile(empty, "export {};\n");
    const socket = join(place.dir, "d.sock");
    await using daemon = await startStore({ store: shop.dir, socket });
    await daemon.client.call("open", { db: DB });
    const taskd = (...words: string[]): Measure => {
      const [program, args] = ownCommand(TASKD_ENTRY, [...words, "--store", shop.dir, "--socket", socket]);
      return () => elapsed(() => run(program, args));
    };
    const fork = (round: number) => taskd("fork", DB, `start-${round + 10}`)(round);
    const subjects: Record<string, Measure> = {
      "deno, empty": () => elapsed(() => run(Deno.execPath(), ["run", "--no-prompt", "--quiet", empty])),
      "taskd version": taskd("version"),
      "taskd session status": taskd("session", "status"),
      "taskd fork": fork,
      "status over the socket": () => elapsed(() => daemon.client.call("status", {})),
    };
    const taken = await interleave(subjects, { samples: bench.pick(40, 5) });
    for (const [subject, samples] of Object.entries(taken)) {
      bench.add(place, subject, "ms", samples, { beside: "deno, empty" });
    }
    await daemon.stop();
  },
};
