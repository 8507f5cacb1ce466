/**
 * `deno task gate:mutate --cases 20000 --seed N`: {@linkcode runMutations} for as many databases.
 */

import { runMutations } from "./_mutations.ts";

function option(name: string): number | undefined {
  const index = Deno.args.indexOf(`--${name}`);
  return index < 0 ? undefined : Number(Deno.args[index + 1]);
}

const seed = option("seed") ?? Math.floor(Math.random() * 2 ** 31);
console.log(`seed ${seed}`);
const directory = Deno.makeTempDirSync();
try {
  const cases = option("cases") ?? 1000;
  console.log(JSON.stringify(await runMutations({ cases, seed, directory, log: (line) => console.log(line) })));
} finally {
  Deno.removeSync(directory, { recursive: true });
}
