/**
 * A process that fills a cache until it is killed: tasks of a few repositories, one after another. Each file of an entry
 * says which task wrote it and how many files belong to it.
 */

import { DependencyCache } from "../../../broker/cache/dependency_cache.ts";
import { systemClock } from "../../../lib/clock.ts";
import { request } from "./_cache.ts";

const [cache_root, seed, quota_bytes] = Deno.args;
const cache = await DependencyCache.open({
  cache_root: cache_root!,
  quota_bytes: Number(quota_bytes),
  clock: systemClock,
});
console.log("ready");
for (let number = 0;; number++) {
  const use = await cache.use(request(String.fromCharCode(97 + number % 5), `lock ${number % 3}`));
  const files = 1 + (number * 7 + Number(seed)) % 20;
  if (use.participation === "miss") {
    for (let index = 0; index < files; index++) {
      await Deno.writeTextFile(`${use.setup_mount!.source}/${index}`, `${seed}:${number}:${files}`);
    }
  }
  // Every fifth setup fails.
  if (number % 5 !== 4) await use.commit();
  await use.release();
}
