import { assertEquals, assertRejects } from "@std/assert";
import { join } from "@std/path/join";
import { TaskdError } from "../lib/errors.ts";
import { serve } from "./serve.ts";

Deno.test("serve() refuses every number that it cannot serve with, and changes nothing", async () => {
  const directory = await Deno.makeTempDir();
  const refused = {
    flush_every_ms: [NaN, Infinity, -1],
    snapshot_every: [NaN, Infinity, 0, 1.5],
    reap_every_ms: [NaN, Infinity, -1],
    gc_grace_ms: [NaN, Infinity, -1],
    ro_cache_budget_bytes: [NaN, Infinity, -1, 0.5],
    workers: [NaN, Infinity, 1, 2.5],
  };
  for (const [field, values] of Object.entries(refused)) {
    for (const value of values) {
      const options = { store: join(directory, "store"), socket: join(directory, "d.sock"), [field]: value };
      const error = await assertRejects(() => serve(options), TaskdError, `${value}`, field);
      assertEquals([error.code, [...Deno.readDirSync(directory)]], ["usage", []], field);
    }
  }
  await Deno.remove(directory);
});
