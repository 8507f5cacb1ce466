import { assert, assertEquals } from "@std/assert";
import { Admission } from "../../../broker/admission/admission.ts";
import { SeededRandom } from "../../support/writers/random.ts";
import { DEFAULTS } from "./site.ts";

const SPENDER = new URL("./_spender.ts", import.meta.url).pathname;

/** Runs a spender until it has reported `count` ends, kills it, and returns every id that it reported. */
async function spend(audit_root: string, round: number, count: number): Promise<string[]> {
  const child = new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--no-prompt", SPENDER, audit_root, String(round)],
    stdin: "null",
    stdout: "piped",
    stderr: "inherit",
  }).spawn();
  let printed = "";
  let killed = false;
  for await (const text of child.stdout.pipeThrough(new TextDecoderStream())) {
    printed += text;
    if (!killed && printed.split("\n").length > count) {
      killed = true;
      child.kill("SIGKILL");
    }
  }
  await child.status;
  return printed.split("\n").slice(0, -1);
}

Deno.test("a broker that is killed at any moment loses no start, and no cost that it had written down", async () => {
  const place = await Deno.makeTempDir();
  const audit_root = `${place}/audit`;
  Deno.mkdirSync(audit_root, { mode: 0o700 });
  const random = new SeededRandom(5);
  try {
    const printed: string[] = [];
    for (let round = 0; round < 4; round++) {
      printed.push(...await spend(audit_root, round, random.between(1, 60)));
      const admission = await Admission.open({
        audit_root,
        settings: { ...DEFAULTS, global_budget_usd: 1e6, global_max_tasks: 1e6, global_window: 0 },
      });
      const { starts, spent_usd, damaged, in_flight_starts } = admission.ceiling();
      const traces = [...Deno.readDirSync(audit_root)].filter(({ name }) => name.endsWith(".jsonl")).length;
      assertEquals([starts - damaged, in_flight_starts], [traces, 0]);
      assert(spent_usd >= printed.length, `$${spent_usd} of ${printed.length} ends`);
      await admission.close();
    }
    assertEquals(new Set(printed).size, printed.length);
  } finally {
    await Deno.remove(place, { recursive: true });
  }
});
