/**
 * `deno task torture --seconds 300 --seed N`: {@linkcode torture} for a while; a failure
 * prints the seed that replays its decisions. With `--xfs` on a file system that clones blocks, with
 * `--store s3` in a bucket of MinIO.
 */

import { startMinio } from "../support/minio.ts";
import { mount } from "../support/mounts.ts";
import { torture } from "./_torture.ts";

function option(name: string): number | undefined {
  const index = Deno.args.indexOf(`--${name}`);
  return index < 0 ? undefined : Number(Deno.args[index + 1]);
}

const seed = option("seed") ?? Math.floor(Math.random() * 2 ** 32);
const rounds = option("rounds");
console.log(`seed ${seed}`);
const where = Deno.args.indexOf("--store");
const s3 = where >= 0 && Deno.args[where + 1] === "s3" ? await startMinio() : undefined;
const disk = Deno.args.includes("--xfs") ? await mount("xfs", 4000) : undefined;
try {
  const summary = await torture({
    ...(disk === undefined ? {} : { directory: disk.directory }),
    ...(s3 === undefined ? {} : { s3 }),
    seed,
    ...(rounds === undefined ? { until_ms: performance.now() + (option("seconds") ?? 60) * 1000 } : { rounds }),
    log: (line) => console.log(line),
  });
  console.log(JSON.stringify(summary));
} finally {
  await s3?.[Symbol.asyncDispose]();
  await disk?.[Symbol.asyncDispose]();
}
