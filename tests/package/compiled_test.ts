import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { withAgent, WITHOUT_BUBBLEWRAP } from "../support/bubblewrap.ts";
import { longTest } from "../support/long.ts";
import { ModelServer } from "../support/model_server.ts";
import { ONE_CHANGE } from "../broker/engine/bench.ts";
import { GitBench } from "../broker/git/bench.ts";
import { compileStandIn } from "./_compiled.ts";
import { run } from "./_publish_and_run.ts";

longTest("a compiled program runs without deno: its helpers are itself, and held as tightly", async (t) => {
  // Not below /tmp, of which sandboxes see nothing: in this stand-in a program is a folder, not one file.
  const base = await Deno.realPath(await Deno.makeTempDir({ prefix: "compiled-", dir: "/var/tmp" }));
  try {
    await Deno.mkdir(`${base}/program`);
    const program = await compileStandIn(`${base}/program`);
    const env = { HOME: `${base}/home`, TMPDIR: `${base}/tmp`, DENO_DIR: `${base}/none` };
    await Promise.all([env.HOME, env.TMPDIR].map((path) => Deno.mkdir(path)));
    const taskd = (...words: string[]) => run(program, words, { env, cwd: base });

    await t.step("version is the release's", async () => {
      const { code, stdout, stderr } = await taskd("version");
      assertEquals(code, 0, stderr);
      assertMatch(stdout, /^taskd \d+\.\d+\.\d+ /);
    });

    await t.step("it takes no flags of deno, and help lists no helper", async () => {
      assertEquals((await taskd("run", "--no-prompt", "x.ts")).code, 2);
      assertEquals((await taskd("help")).stdout.includes("internal"), false);
    });

    await t.step("demo runs the built-in agent and looks at its databases", async () => {
      const { code, stdout, stderr } = await taskd("demo", "--quick", "--json");
      assertEquals(code, 0, stdout + stderr);
      const { acknowledged, invoices, restored } = JSON.parse(stdout).facts;
      assertEquals([restored, invoices.after[0]], [acknowledged, 5997]);
    });

    await t.step("redteam finds the embedded sandbox closed", async () => {
      assertEquals((await taskd("init")).code, 0);
      await Deno.writeTextFile(`${base}/home/.taskd/config.yaml`, "runtime: deno\n", { mode: 0o600 });
      const { code, stdout, stderr } = await taskd("redteam", "--runtime", "deno", "--only", "sandbox", "--json");
      assertEquals(code, 0, stdout + stderr);
    });

    await t.step("a helper whose memory grows beyond its limit is ended", async () => {
      // It waits for its configuration meanwhile.
      const words = ["-c", 'sleep 2 | "$0" internal agent --heap-mib=-9999', program];
      const { code, stderr } = await run("/bin/sh", words, { env, cwd: base });
      assertEquals(code, 1);
      assertStringIncludes(stderr, "out of memory");
    });

    await t.step("mcp and buckets load the packages that are embedded", async () => {
      assertEquals((await taskd("mcp")).code, 0);
      const { stderr } = await taskd("branches", "--store", "s3://bucket/x", "--s3-endpoint", "http://127.0.0.1:1");
      assertEquals(stderr.includes("npm:"), false, stderr);
    });

    await t.step({
      name: "it is what leads to the gateway in a sandbox of bubblewrap",
      ignore: WITHOUT_BUBBLEWRAP !== undefined,
      fn: () =>
        withAgent(async (folder) => {
          await using git = await GitBench.start();
          await using model = new ModelServer([...ONE_CHANGE]);
          const of_stand_in = [`${base}/program`, Deno.execPath()].map((path) => JSON.stringify(path)).join(", ");
          await Deno.writeTextFile(
            `${base}/home/.taskd/config.yaml`,
            `runtime: bubblewrap
default_agent: agent_d
sandbox: { read: [${of_stand_in}] }
compat: { base_url: "${model.url}", model: test-model }
`,
          );
          const PATH = `${folder}/bin:${Deno.env.get("PATH")}`;
          const own = (...words: string[]) => run(program, words, { env: { ...env, PATH }, cwd: base });
          const started = await own("start", "--detach");
          try {
            assertEquals(started.code, 0, started.stdout + started.stderr);
            const { code, stdout, stderr } = await own("submit", git.origin, "Say hello", "--json");
            assertEquals(code, 0, stdout + stderr);
            const { stage, spend } = JSON.parse(stdout);
            assertEquals([stage, spend.requests], ["awaiting_approval", 1]);
          } finally {
            await own("stop");
          }
        }),
    });
  } finally {
    await Deno.remove(base, { recursive: true });
  }
});
