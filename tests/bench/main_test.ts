import { assert, assertEquals } from "@std/assert";
import { join } from "@std/path/join";
import { meetsTarget, type Report } from "./figures.ts";

const MAIN = new URL("./main.ts", import.meta.url).pathname;

Deno.test("a quick run leaves its figures and nothing else", async () => {
  const tmp = await Deno.makeTempDir();
  try {
    const out = join(tmp, "out", "bench.json");
    await Deno.mkdir(join(tmp, "work"));
    const { code, stderr } = await new Deno.Command(Deno.execPath(), {
      args: ["run", "-A", "--no-prompt", MAIN, "--quick", "--only", "flush", "--out", out],
      env: { TMPDIR: join(tmp, "work") },
    }).output();
    assertEquals(code, 0, new TextDecoder().decode(stderr));
    const report = JSON.parse(await Deno.readTextFile(out)) as Report;
    assert(report.quick);
    const flushes = report.figures.filter((figure) => figure.subject.startsWith("flush"));
    assert(flushes.length >= 3);
    for (const { stats } of flushes) assert(stats.min <= stats.p50 && stats.p50 <= stats.p95 && stats.n >= 3);
    assert(flushes.every((figure) => meetsTarget(figure) !== undefined));
    assertEquals([...Deno.readDirSync(join(tmp, "work"))], []);
  } finally {
    await Deno.remove(tmp, { recursive: true });
  }
});

Deno.test("a case that does not exist is refused", async () => {
  const { code, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--no-prompt", MAIN, "--only", "forks"],
  }).output();
  assertEquals(code, 2);
  assert(new TextDecoder().decode(stderr).includes("no such case"));
});
