/**
 * Checks the models in docs/model/ with SPIN: every reachable state of each configuration, and for each guard that is
 * taken away the counterexample that it keeps out. `deno run -A tests/model/spin.ts` checks all and prints the table of
 * docs/model/README.md.
 */

import { inParallel } from "../../lib/in_parallel.ts";

const MODELS = new URL("../../docs/model/", import.meta.url).pathname;

/** The model checker, and the compiler of what it writes. */
export const SPIN = "/usr/bin/spin";
export const GCC = "/usr/bin/gcc";
/** Bytes of memory and steps of depth that one check may take. */
const LIMITS = ["-DSAFETY", "-DCOLLAPSE", "-DVECTORSZ=2048", "-DMEMLIM=4000"];
const DEPTH = "-m1000000";

/** One check. */
export interface Check {
  model: "gc.pml" | "lease.pml";
  /** What is switched on; the models' heads and comments say what each is. */
  flags: readonly string[];
  /** Whether it takes long; the default suite leaves those out. */
  long?: true;
}

/** What holds, with every guard in its place. */
export const HOLDS: readonly Check[] = [
  { model: "gc.pml", flags: [] },
  { model: "gc.pml", flags: ["LATE"], long: true },
  { model: "gc.pml", flags: ["REPOINT", "LATE"], long: true },
  { model: "gc.pml", flags: ["FOLD"] },
  { model: "gc.pml", flags: ["FOLD", "LATE"], long: true },
  { model: "gc.pml", flags: ["USE"], long: true },
  { model: "gc.pml", flags: ["USE", "LATE", "PASSES=2"], long: true },
  { model: "gc.pml", flags: ["PASSES=2", "OTHERS=1"], long: true },
  { model: "lease.pml", flags: ["DESTROYERS=0", "FLUSHES=1"] },
  { model: "lease.pml", flags: ["HOLDERS=1"], long: true },
  { model: "lease.pml", flags: ["DESTROYERS=0"], long: true },
  { model: "lease.pml", flags: ["HOLDERS=1", "DESTROYERS=2", "FLUSHES=1"], long: true },
];

/** Guards that are taken away: each has a counterexample. The first flag names the guard. */
export const MUTANTS: readonly Check[] = [
  { model: "gc.pml", flags: ["NO_EXISTENCE_CHECK"] },
  { model: "gc.pml", flags: ["NO_TOMBSTONES_READ"] },
  { model: "gc.pml", flags: ["CHECK_BEFORE_REF"] },
  { model: "gc.pml", flags: ["DOOM_AT_ONCE"] },
  { model: "gc.pml", flags: ["FORGET_EARLY"] },
  { model: "gc.pml", flags: ["NO_SWAP"] },
  { model: "gc.pml", flags: ["LIST_READ_LATE", "PASSES=2", "OTHERS=1"] },
  { model: "gc.pml", flags: ["NO_CONFIRM", "USE"] },
  { model: "gc.pml", flags: ["WITHDRAW_USED", "USE"] },
  { model: "gc.pml", flags: ["LEASE_BY_LINEAGE", "USE", "LATE"] },
  { model: "gc.pml", flags: ["NO_PENDING", "REPOINT"] },
  { model: "gc.pml", flags: ["MOVE_UNFENCED", "REPOINT"] },
  { model: "gc.pml", flags: ["NO_PENDING", "FOLD"] },
  { model: "gc.pml", flags: ["MOVE_UNFENCED", "FOLD"] },
  { model: "lease.pml", flags: ["NO_COMPARE", "DESTROYERS=0", "FLUSHES=1"] },
  { model: "lease.pml", flags: ["NO_FENCE", "DESTROYERS=0"] },
  { model: "lease.pml", flags: ["SAME_EPOCH", "DESTROYERS=0", "FLUSHES=1"] },
  { model: "lease.pml", flags: ["NO_CLAIM", "HOLDERS=1"] },
];

/** What a check has found. */
export interface Verdict {
  /** Stored states. */
  states: number;
  /** The invariant that a counterexample breaks; undefined when every state was visited and none does. */
  broken?: string;
}

async function run(path: string, args: string[], cwd: string): Promise<string> {
  const { code, stdout, stderr } = await new Deno.Command(path, { args, cwd, stdin: "null" }).output();
  const text = new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr);
  if (code !== 0) throw new Error(`${path} ${args.join(" ")}: ${text}`);
  return text;
}

/** Visits every state of one configuration, or as far as its first counterexample. */
export async function check({ model, flags }: Check): Promise<Verdict> {
  const folder = await Deno.makeTempDir({ prefix: "taskd-model-" });
  try {
    await run(SPIN, [...flags.map((flag) => `-D${flag}`), "-a", `${MODELS}${model}`], folder);
    await run(GCC, ["-O2", "-w", ...LIMITS, "-o", "pan", "pan.c"], folder);
    const text = await run(`${folder}/pan`, ["-E", DEPTH, "-w24"], folder);
    // A search that was cut short proves nothing.
    if (/max search depth too small|reached -DMEMLIM|Search not completed/.test(text) && !/errors: [1-9]/.test(text)) {
      throw new Error(`${nameOf({ model, flags })} was not exhausted:\n${text}`);
    }
    const states = /^ *(\d+) states, stored/m.exec(text)?.[1];
    const errors = /errors: (\d+)/.exec(text)?.[1];
    if (states === undefined || errors === undefined) throw new Error(`SPIN did not finish:\n${text}`);
    const broken = /assertion violated (.*) \(at depth/.exec(text)?.[1];
    return { states: Number(states), ...(errors === "0" ? {} : { broken: broken ?? "?" }) };
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

/** A check's name: its model and what is switched on. */
export function nameOf({ model, flags }: Pick<Check, "model" | "flags">): string {
  return [model, ...flags].join(" ");
}

if (import.meta.main) {
  const rows = new Map<Check, Verdict>();
  const all = [...HOLDS, ...MUTANTS];
  await inParallel(all, 2, async (each) => void rows.set(each, await check(each)));
  let wrong = 0;
  for (const each of all) {
    const { states, broken } = rows.get(each)!;
    if (HOLDS.includes(each) !== (broken === undefined)) wrong++;
    console.log(`- \`${nameOf(each)}\`: ${states.toLocaleString("en")} states${broken ? ", a counterexample" : ""}`);
  }
  console.log(`${all.length - wrong} as they should be, ${wrong} not`);
  Deno.exit(wrong === 0 ? 0 : 1);
}
