/**
 * `deno task powercut --cuts 500 --seed N --fs ext4 --only store --synchronous OFF`: cuts the power under a store and under a broker again
 * and again, on every file system that it knows, and holds what was acknowledged against what is there afterwards. A line
 * for each cut; one that broke a promise prints what repeats its decisions. With `--keep DIRECTORY` such a disk is copied
 * there as it was found. Exits with 1 when a promise was broken.
 */

import { systemClock } from "../../lib/clock.ts";
import { startMinio } from "../support/minio.ts";
import type { S3Server } from "../support/s3_server.ts";
import { cutApproval } from "./_approval_cut.ts";
import { cutBroker } from "./_broker_cut.ts";
import { FILE_SYSTEMS, type FileSystem } from "./_disk.ts";
import { type CutOptions, type CutReport, cutStore, SYNCHRONOUS } from "./_store_cut.ts";

const KINDS = ["store", "broker", "approval", "bucket"] as const;
type Kind = typeof KINDS[number];

function option(name: string): string | undefined {
  const index = Deno.args.indexOf(`--${name}`);
  return index < 0 ? undefined : Deno.args[index + 1];
}

function oneOf<T extends string>(name: string, known: readonly T[]): T | undefined {
  const value = option(name);
  if (value === undefined || known.includes(value as T)) return value as T | undefined;
  console.error(`--${name} is one of ${known.join(", ")}`);
  Deno.exit(2);
}

/** Started for the first cut that needs one. */
let server: Promise<S3Server> | undefined;

/** A store that stays, with a workspace whose power is cut. */
async function cutBucket(options: CutOptions): Promise<CutReport> {
  return await cutStore({ ...options, s3: await (server ??= startMinio()) });
}

const CUT = { store: cutStore, broker: cutBroker, approval: cutApproval, bucket: cutBucket } as const;
const systems = Object.keys(FILE_SYSTEMS) as FileSystem[];
const only_fs = oneOf("fs", systems);
const only = oneOf("only", KINDS);
const synchronous = oneOf("synchronous", SYNCHRONOUS);
const first = Number(option("seed") ?? Math.floor(Math.random() * 2 ** 31));
const cuts = Number(option("cuts") ?? 20);
const keep = option("keep");
if (keep !== undefined) await Deno.mkdir(keep, { recursive: true });
const counts = new Map<string, number>();
const outcomes = new Map<string, number>();
const broken: string[] = [];
const began_ms = systemClock.monotonic();
console.log(`seed ${first}`);
for (let seed = first; seed < first + cuts; seed++) {
  const fs = only_fs ?? systems[seed % systems.length]!;
  const kind: Kind = only ?? KINDS[Math.floor(seed / systems.length) % KINDS.length]!;
  const cut_ms = systemClock.monotonic();
  const copy = keep === undefined ? undefined : `${keep}/${seed}`;
  const options: CutOptions = { seed, fs };
  if (copy !== undefined) options.keep = copy;
  if (synchronous !== undefined) options.synchronous = synchronous;
  const report: CutReport = await CUT[kind](options).catch((error) => ({
    what: "",
    broken: [`the run failed: ${(error as Error).stack}`],
  }));
  for (const outcome of report.outcomes ?? []) outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
  const seconds = ((systemClock.monotonic() - cut_ms) / 1_000).toFixed(1);
  counts.set(`${kind} on ${fs}`, (counts.get(`${kind} on ${fs}`) ?? 0) + 1);
  const said = report.broken.length === 0 ? "kept" : "BROKEN";
  console.log(`${seed} ${kind} ${fs}: ${report.what}; ${said}, ${seconds} s`);
  if (report.broken.length === 0) {
    if (copy !== undefined) await Deno.remove(copy, { recursive: true }).catch(() => {});
    continue;
  }
  for (const text of report.broken) console.log(`  BROKEN ${text}`);
  const again = `deno task powercut --cuts 1 --seed ${seed} --only ${kind} --fs ${fs}` +
    (synchronous === undefined ? "" : ` --synchronous ${synchronous}`);
  console.log(`  again: ${again}`);
  broken.push(again);
}
for (const [what, count] of [...counts].sort()) console.log(`${what}: ${count} cuts`);
if (outcomes.size > 0) console.log(`openings: ${[...outcomes].sort().map((one) => one.join(" ")).join(", ")}`);
const minutes = ((systemClock.monotonic() - began_ms) / 60_000).toFixed(1);
console.log(`${cuts} cuts in ${minutes} minutes, ${broken.length} of them broke a promise`);
for (const again of broken) console.log(`again: ${again}`);
await (await server)?.[Symbol.asyncDispose]();
if (broken.length > 0) Deno.exit(1);
