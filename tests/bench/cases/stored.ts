/**
 * Putting a database into the store: how long, how large.
 */

import { join } from "@std/path/join";
import { openStore } from "../../../lib/store/open.ts";
import type { BenchCase } from "../bench.ts";
import { run } from "../process.ts";
import { elapsed, interleave, type Measure } from "../stats.ts";
import { DB } from "./_store.ts";

/** The case. */
export const stored: BenchCase = {
  name: "stored",
  title: "Put a database into the store",
  method:
    "`create --from` a file. Where files can share blocks the store keeps a plain image that shares them, so its share of the disk is nil until one of " +
    "the two changes; elsewhere it is compressed. `gzip -1` and `zstd -3` of the same file stand beside it.",
  places: "each",
  async run(bench, place) {
    for (const size_mb of bench.pick([50, 512], [12])) {
      const file = await bench.shop(place, size_mb);
      if (file === undefined) continue;
      const size = (await Deno.stat(file)).size;
      const shares: Record<string, number> = {};
      const create: Measure = async (round) => {
        const dir = join(place.dir, `store-${size_mb}-${round}`);
        const store = await openStore(dir, { holder: "bench" });
        const ms = await elapsed(async () => {
          shares["taskd create"] = (await store.create(DB, { from: file })).stored_bytes / size;
        });
        await Deno.remove(dir, { recursive: true });
        return size / 1e6 / (ms / 1_000);
      };
      const pack = (subject: string, program: string, args: string[]): Measure => async () => {
        const packed = join(place.dir, "packed");
        const ms = await elapsed(() => run("sh", ["-c", `${program} ${args.join(" ")} -c '${file}' > '${packed}'`]));
        shares[subject] = (await Deno.stat(packed)).size / size;
        await Deno.remove(packed);
        return size / 1e6 / (ms / 1_000);
      };
      const subjects = {
        "taskd create": create,
        "zstd -3": pack("zstd -3", "zstd", ["-q", "-3"]),
        "gzip -1": pack("gzip -1", "gzip", ["-1"]),
      };
      const taken = await interleave(subjects, { samples: bench.pick(5, 3), budget_ms: 30_000 });
      for (const [subject, samples] of Object.entries(taken)) {
        bench.add(place, subject, "MB/s", samples, { size_mb, beside: "taskd create" });
      }
      for (const subject of Object.keys(subjects)) {
        const promised = subject.startsWith("taskd") && !place.clones;
        const target = promised ? { target: { value: 35, is: "at_most" } as const } : {};
        bench.add(place, subject, "%", [shares[subject]! * 100], { size_mb, beside: "taskd create", ...target });
      }
      await Deno.remove(file);
    }
  },
};
