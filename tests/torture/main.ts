/**
 * `deno task torture --seconds 300 --seed N`: {@linkcode torture} for a while; a failure
 * prints the seed that replays its decisions.
 *
 * @module
 */

import { torture } from "./_torture.ts";

function option(name: string): number | undefined {
  const index = Deno.args.indexOf(`--${name}`);
  return index < 0 ? undefined : Number(Deno.args[index + 1]);
}

const seed = option("seed") ?? Math.floor(Math.random() * 2 ** 32);
const rounds = option("rounds");
console.log(`seed ${seed}`);
const summary = await torture({
  seed,
  ...(rounds === undefined ? { until_ms: performance.now() + (option("seconds") ?? 60) * 1000 } : { rounds }),
  log: (line) => console.log(line),
});
console.log(JSON.stringify(summary));
