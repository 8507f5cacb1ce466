import { assert, assertEquals } from "@std/assert";
import { join } from "@std/path/join";
import { meetsTarget, type Report } from "./figures.ts";
import { longTest } from "../support/long.ts";

const MAIN = new URL("./main.ts", import.meta.url).pathname;

/** Runs cases quickly; nothing may be left of them but the report. */
async function quickly(only: string): Promise<Report> {
  const tmp = await Deno.makeTempDir();
  try {
    const out = join(tmp, "out", "bench.json");
    await Deno.mkdir(join(tmp, "work"));
    const { code, stderr } = await new Deno.Command(Deno.execPath(), {
      args: ["run", "-A", "--no-prompt", MAIN, "--quick", "--only", only, "--out", out],
      env: { TMPDIR: join(tmp, "work") },
    }).output();
    assertEquals(code, 0, new TextDecoder().decode(stderr));
    assertEquals([...Deno.readDirSync(join(tmp, "work"))], []);
    const report = JSON.parse(await Deno.readTextFile(out)) as Report;
    assert(report.quick);
    for (const { stats } of report.figures) assert(stats.min <= stats.p50 && stats.p50 <= stats.p95);
    return report;
  } finally {
    await Deno.remove(tmp, { recursive: true });
  }
}

longTest("a quick run leaves its figures and nothing else", async () => {
  const { figures } = await quickly("flush");
  const flushes = figures.filter((figure) => figure.subject.startsWith("flush"));
  assert(flushes.length >= 3);
  assert(flushes.every((figure) => meetsTarget(figure) !== undefined && figure.stats.n >= 3));
});

longTest("a quick run of the broker's parts sets each beside the same thing without it", async () => {
  const { figures } = await quickly("gateway,proxy,stats");
  const subjects = figures.map(({ subject }) => subject);
  for (const subject of ["a request, direct", "a request, through the gateway", "tunnels, direct", "tunnels, taskd"]) {
    assert(subjects.includes(subject), subject);
  }
  assert(figures.some((figure) => figure.case === "stats" && figure.beside !== undefined));
});

Deno.test("a case that does not exist is refused", async () => {
  const { code, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--no-prompt", MAIN, "--only", "forks"],
  }).output();
  assertEquals(code, 2);
  assert(new TextDecoder().decode(stderr).includes("no such case"));
});
