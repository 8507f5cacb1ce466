import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { exitCode } from "../../../cli/commands/redteam.ts";
import { launchFlags } from "../../../cli/table/launch_flags.ts";
import { BrokerBench } from "../../broker/engine/bench.ts";
import { OPTIONS, tryThem } from "./_context.ts";
import { longTest } from "../../support/long.ts";

/** Runs `taskd redteam` as it is installed, with this home. */
async function redteam(home: string, ...words: string[]): Promise<{ code: number; out: string; err: string }> {
  const main = new URL("../../../cli/main.ts", import.meta.url).pathname;
  const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["run", ...launchFlags(), main, "redteam", "--runtime", "deno", ...words],
    env: { HOME: home, TMPDIR: `${home}/tmp`, DENO_DIR: OPTIONS.deno_cache_dir, NO_COLOR: "1" },
    stdin: "null",
  }).output();
  return { code, out: new TextDecoder().decode(stdout), err: new TextDecoder().decode(stderr) };
}

/** A home without anything but room for temporary files. */
async function withHome(test: (home: string) => Promise<void>): Promise<void> {
  const home = await Deno.makeTempDir();
  try {
    await Deno.mkdir(`${home}/tmp`);
    await test(home);
  } finally {
    await Deno.remove(home, { recursive: true });
  }
}

function entries(path: string): string[] {
  return [...Deno.readDirSync(path)].map(({ name }) => name);
}

longTest(
  "taskd redteam tries everything with the command's permissions, exits 0, leaves nothing",
  () =>
    withHome(async (home) => {
      const { code, out, err } = await redteam(home);
      assertEquals([code, err], [0, ""], out);
      assertStringIncludes(out, "The network of this machine\n  held     No name leads a sandbox");
      assertStringIncludes(out, " 0 HOLES, ");
      assertEquals([entries(home), entries(`${home}/tmp`)], [["tmp"], []]);
    }),
);

longTest("a running broker is not disturbed, and its files are inspected", async () => {
  await using bench = await BrokerBench.start();
  await Deno.mkdir(`${bench.home}/tmp`);
  const { id } = await bench.submit();
  await bench.reaches(id, "awaiting_approval");
  const { code, out, err } = await redteam(bench.home, "--only", "files", "--only", "git.attributes", "--json");
  const report = JSON.parse(out);
  assertEquals(report.promises.flatMap(({ holes }: { holes: string[] }) => holes), []);
  assertEquals([code, err, report.ok, report.holes, report.skipped], [0, "", true, 0, 0]);
  const installed = report.promises.find((promise: { id: string }) => promise.id === "files.installed");
  assert(installed.attempts > 10);
  assertEquals(bench.engine.tasks.size, 1);
  assertEquals((await bench.reaches(id, "awaiting_approval")).stage, "awaiting_approval");
});

Deno.test("a path of the installed home that is open to others is a HOLE, and exits 1", () =>
  withHome(async (home) => {
    await Deno.mkdir(`${home}/.taskd/audit`, { recursive: true, mode: 0o700 });
    await Deno.chmod(`${home}/.taskd/audit`, 0o750);
    await Deno.writeTextFile(`${home}/.taskd/audit/x\u001b[2J.diff`, "x", { mode: 0o600 });
    await Deno.chmod(`${home}/.taskd/audit/x\u001b[2J.diff`, 0o604);
    const { code, out } = await redteam(home, "--only", "files.installed");
    assertEquals(code, 1);
    assertStringIncludes(out, "  HOLE     The installed broker's own files");
    assertStringIncludes(out, `${home}/.taskd/audit: mode 750, 700 at most`);
    assertStringIncludes(out, "x\\x1b[2J.diff: mode 604, 600 at most");
    const json = await redteam(home, "--only", "files.installed", "--json");
    assertEquals([json.code, JSON.parse(json.out).promises[0].verdict], [1, "hole"]);
  }));

Deno.test("a dialer that knows no own address is reported, and the exit status is 1", async () => {
  const dialer = () => ({ addresses: () => Promise.resolve(["127.0.0.1"]) });
  const promises = await tryThem(["egress.own_addresses"], { surfaces: { dialer } });
  assertEquals(promises.map(({ verdict }) => verdict), ["hole"]);
  assertStringIncludes(promises[0]!.holes[0]!, "it may be dialled");
  const report = { promises, held: 0, skipped: 0, attempts: 1, duration_ms: 1 };
  assertEquals([exitCode({ ...report, holes: 1 }), exitCode({ ...report, holes: 0 })], [1, 0]);
});

Deno.test("an unknown promise or runtime is refused before any attack", () =>
  withHome(async (home) => {
    const unknown = await redteam(home, "--only", "egress.nonsense");
    assertEquals([unknown.code, unknown.out], [2, ""]);
    assertStringIncludes(unknown.err, "Groups are egress, git");
    const runtime = await redteam(home, "--runtime", "vm");
    assertEquals([runtime.code, runtime.out], [2, ""]);
  }));
