import { LONG, scaled, scaledTest } from "../support/long.ts";
import { runMutations } from "./_mutations.ts";

scaledTest("a change of a database that a query shows is in the comparison", async () => {
  const directory = await Deno.makeTempDir();
  try {
    await runMutations({ cases: scaled({ short: 120, long: 5_000 }), seed: LONG ? 1_000_000 : 1, directory });
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
});
