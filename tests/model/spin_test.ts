import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { existsSync } from "@std/fs/exists";
import { LONG, scaledTest, shortened } from "../support/long.ts";
import { check, GCC, HOLDS, MUTANTS, nameOf, SPIN } from "./spin.ts";

const missing = [SPIN, GCC].find((path) => !existsSync(path));
const why = missing === undefined ? "" : ` (ignored: ${missing} is not installed)`;

scaledTest({
  name: `no state of the models breaks an invariant${why}`,
  ignore: missing !== undefined,
  fn: async (t) => {
    for (const each of HOLDS.filter(({ long }) => LONG || !long)) {
      await t.step(nameOf(each), async () => {
        const { states, broken } = await check(each);
        assertEquals(broken, undefined);
        assert(states > 1_000, `${states} states`);
      });
    }
  },
});

scaledTest({
  name: `each guard that is taken out of the models has a counterexample${why}`,
  ignore: missing !== undefined,
  fn: async (t) => {
    // The first is the one that two clocks six minutes apart once led to.
    for (const each of [MUTANTS[0]!, ...shortened(MUTANTS.slice(1), 1)]) {
      await t.step(nameOf(each), async () => assert((await check(each)).broken !== undefined));
    }
  },
});

Deno.test("docs/model/README.md has every configuration and every guard", async () => {
  const page = await Deno.readTextFile(new URL("../../docs/model/README.md", import.meta.url));
  for (const each of HOLDS) assertStringIncludes(page, `\`${nameOf(each)}\``);
  for (const { flags } of MUTANTS) assertStringIncludes(page, `\`${flags[0]}\``);
});
