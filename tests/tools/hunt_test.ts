import { assert, assertEquals } from "@std/assert";
import { huntAll, type Part } from "./_hunt.ts";

const CODE: Record<string, string> = {
  bad: "console.log('seed', Deno.args); console.error('what broke'); Deno.exit(3)",
  tests: "console.log('ok | 12 passed | 0 failed (1s)'); console.log(Deno.env.get('TASKD_TEST_SEED'))",
  good: "",
};

Deno.test("the hunt goes on after a failure, and its end names what failed and what repeats it", async () => {
  const output = await Deno.makeTempDir();
  try {
    const parts = Object.entries(CODE).map(([name, code]): Part => {
      Deno.writeTextFileSync(`${output}/${name}.ts`, code);
      const seeded = ({ bad: "flag", tests: "variable" } as const)[name];
      return { name, what: "nothing", args: ["run", "-A", `${name}.ts`], ...(seeded === undefined ? {} : { seeded }) };
    });
    const lines: string[] = [];
    const passed = await huntAll(parts, { seed: 7, cwd: output, output, print: (line) => lines.push(line) });
    const text = lines.join("\n");
    assertEquals([passed, lines.at(-1)], [false, "13 passed, 1 failed"], text);
    assert(lines.includes('seed [ "--seed", "7" ]') && lines.includes("7"), text);
    assert(lines.includes("bad failed; again: deno run -A bad.ts --seed 7"), text);
    const report = Deno.readTextFileSync(`${output}/nightly.md`);
    assert(/^\| bad \| nothing \| 0 \| 1 \| .* \| `deno run -A bad\.ts --seed 7` \|$/m.test(report), report);
    assert(
      /^\| tests \| nothing \| 12 \| 0 \| .* \| `TASKD_TEST_SEED=7 deno run -A tests\.ts` \|$/m.test(report),
      report,
    );
    assert(Deno.readTextFileSync(`${output}/nightly-bad.log`).includes("what broke"));
  } finally {
    await Deno.remove(output, { recursive: true });
  }
});
