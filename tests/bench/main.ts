/**
 * Runs the benchmarks: `deno task bench [--only case,case] [--quick] [--out file] [--write-docs] [--from report.json]`.
 *
 * Prints a table per case, writes the figures as JSON, and leaves nothing else behind.
 */

import { parseArgs } from "node:util";
import { dirname } from "@std/path/dirname";
import { join } from "@std/path/join";
import { Bench, type BenchCase } from "./bench.ts";
import { CASES, PARTS } from "./cases/mod.ts";
import type { Report } from "./figures.ts";
import { describeMachine } from "./machine.ts";
import { freeBytes, type Place, plainPlace, xfsPlace } from "./file_systems.ts";
import { run } from "./process.ts";
import { benchmarksPage, textReport } from "./report.ts";
import { messageOf } from "../../lib/errors.ts";

const PROJECT = new URL("../../", import.meta.url).pathname;
// Sparse: it takes what is written to it.
const XFS_BYTES = 24 * 2 ** 30;
const XFS_QUICK_BYTES = 2 * 2 ** 30;

const HELP = `deno task bench [options]
  --only a,b        only these: ${
  PARTS.map(({ name, cases }) => `${name} (${cases.map((each) => each.name).join(", ")})`).join(", ")
}
  --quick           small sizes and few rounds
  --max-size MB     no larger databases, default 4096
  --out FILE        where the figures go, default tests/output/bench.json
  --write-docs      also write the parts of tests/bench/results.md that have figures in this run
  --from FILE       run nothing: print, and with --write-docs write, the report in FILE

It works in the directory for temporary files (TMPDIR) and takes up to 40 GB there for a while.`;

async function main(args: string[]): Promise<number> {
  const { values } = parseArgs({
    args,
    options: {
      "only": { type: "string" },
      "quick": { type: "boolean", default: false },
      "max-size": { type: "string", default: "4096" },
      "out": { type: "string", default: join(PROJECT, "tests/output/bench.json") },
      "write-docs": { type: "boolean", default: false },
      "from": { type: "string" },
      "help": { type: "boolean", default: false },
    },
  });
  if (values.help) {
    console.log(HELP);
    return 0;
  }
  const only = values.only?.split(",").flatMap((name) => {
    return PARTS.find((part) => part.name === name)?.cases.map((each) => each.name) ?? [name];
  });
  const unknown = only?.filter((name) => !CASES.some((each) => each.name === name)) ?? [];
  if (unknown.length > 0) {
    console.error(`Cannot run ${unknown.join(", ")}: no such case. ${HELP}`);
    return 2;
  }
  const cases = CASES.filter((each) => only === undefined || only.includes(each.name));
  const report = values.from === undefined
    ? await measure(cases, { quick: values.quick, max_size_mb: Number(values["max-size"]) })
    : JSON.parse(await Deno.readTextFile(values.from)) as Report;
  console.log(textReport(report, CASES));
  if (values.from === undefined) {
    await Deno.mkdir(dirname(values.out), { recursive: true });
    await Deno.writeTextFile(values.out, JSON.stringify(report, null, 1) + "\n");
    console.log(`\nFigures: ${values.out}`);
  }
  if (values["write-docs"]) await writeDocs(report);
  return 0;
}

async function writeDocs(report: Report): Promise<void> {
  const path = join(PROJECT, "tests/bench/results.md");
  await Deno.writeTextFile(path, benchmarksPage(report, PARTS, await Deno.readTextFile(path)));
  await run(Deno.execPath(), ["fmt", "--quiet", path]);
}

async function measure(
  cases: readonly BenchCase[],
  limits: { quick: boolean; max_size_mb: number },
): Promise<Report> {
  const started = new Date();
  const bench = new Bench({ ...limits, log: (line) => console.error(line) });
  const machine = await describeMachine();
  await using stack = new AsyncDisposableStack();
  const root = await Deno.makeTempDir({ prefix: "taskd-bench-" });
  stack.defer(() => Deno.remove(root, { recursive: true }));
  stopOnSignal(stack);
  const places = await preparePlaces(root, bench, {
    only_plain: cases.every((each) => each.places === "plain"),
    stack,
  });
  const cloning = places.find((place) => place.clones) ?? places[0]!;
  machine.file_systems = places.map(({ kind }, index) => index === 0 ? kind : `${kind} in an image on it`).join(", ");
  const where = { each: places, once: [cloning], plain: places.slice(0, 1) };
  for (const benchCase of cases) {
    for (const place of where[benchCase.places]) {
      // The figures of the others are worth an hour.
      await bench.run(benchCase, place).catch((error) => {
        bench.skip(`${benchCase.name} on ${place.kind}`, messageOf(error));
        Deno.exitCode = 1;
      });
    }
  }
  machine.load_at_end = Deno.loadavg()[0]!.toFixed(2);
  return {
    format: 1,
    started_at: started.toISOString(),
    duration_seconds: (Date.now() - started.getTime()) / 1_000,
    quick: limits.quick,
    machine,
    figures: bench.figures,
    skipped: bench.skipped,
  };
}

async function preparePlaces(
  root: string,
  bench: Bench,
  { only_plain, stack }: { only_plain: boolean; stack: AsyncDisposableStack },
): Promise<Place[]> {
  const plain = await plainPlace(join(root, "plain"));
  if (only_plain) return [plain];
  // The image may grow to its size: it must not fill the disk that the other place is on.
  const size = Math.min(bench.pick(XFS_BYTES, XFS_QUICK_BYTES), await freeBytes(root) / 2);
  try {
    return [plain, stack.use(await xfsPlace(size))];
  } catch (error) {
    bench.skip("a file system that shares blocks", messageOf(error));
    return [plain];
  }
}

/** Tidies up before an interrupted run ends. */
function stopOnSignal(stack: AsyncDisposableStack): void {
  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    const stop = () => {
      stack.disposeAsync().finally(() => Deno.exit(130));
    };
    Deno.addSignalListener(signal, stop);
    stack.defer(() => Deno.removeSignalListener(signal, stop));
  }
}

Deno.exitCode = await main(Deno.args) || Deno.exitCode || 0;
