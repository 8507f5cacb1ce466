import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { TaskdError } from "../../../lib/errors.ts";
import { serveGit } from "../git/git_server.ts";
import { type BenchOptions, BrokerBench } from "./bench.ts";
import { ProcessRuntime } from "./process_runtime.ts";
import { writeProgram } from "../../support/programs.ts";
import { longTest } from "../../support/long.ts";

/** A broker whose sandboxes run these shell scripts. */
async function withPrograms(
  programs: Record<string, string>,
  options: BenchOptions & { gh?: string },
  test: (bench: BrokerBench, runtime: ProcessRuntime) => Promise<void>,
): Promise<void> {
  const folder = await Deno.makeTempDir();
  try {
    for (const [name, script] of Object.entries({ ...programs, ...(options.gh ? { gh: options.gh } : {}) })) {
      await writeProgram(`${folder}/${name}`, `#!/bin/bash\n${script}\n`);
    }
    const runtime = new ProcessRuntime(folder);
    await using bench = await BrokerBench.prepare({
      ...options,
      overrides: { runtime },
      programs: { gh: options.gh === undefined ? [] : [`${folder}/gh`] },
      env: { VENDORA_API_KEY: "sk-vendor-a-0123456789", ...options.env },
    });
    bench.configure(`${options.config ?? ""}`.replaceAll("REPO", `file://${bench.git.origin}`));
    await bench.serve();
    await test(bench, runtime);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

const CLAUDE = `echo "$1" > ran.txt
echo '{"type":"result","subtype":"success","total_cost_usd":0.0421}'`;

// conformance: b1.keys_stay b2.ceiling.not_in_sandbox b2.effect.default_model b5.credentials
Deno.test("an agent's program gets its token, the proxy and its home, and no vendor's key", () =>
  withPrograms(
    { claude: `${CLAUDE}\n/usr/bin/env > env.txt` },
    { config: "default_model: opus-x\n" },
    async (bench, runtime) => {
      const { id } = await bench.submit({ agent: "agent_a", platform: "linux/amd64" });
      const record = await bench.reaches(id, "awaiting_approval");
      assertEquals(record.stage, "awaiting_approval", record.reason);
      assertEquals(record.model, "opus-x");
      const [spec] = runtime.specs;
      assert(spec?.workload.kind === "command");
      assertEquals(spec.workload.mounts.map(({ target, writable }) => [target, writable]), [["/home/agent", true]]);
      assertStringIncludes(spec.workload.env.HTTPS_PROXY!, `http://${id}:`);
      assertEquals(spec.workload.env.NO_PROXY, "127.0.0.1");
      assertEquals(JSON.stringify(spec).includes("sk-vendor-a"), false);
      assertEquals((await bench.written()).includes("sk-vendor-a"), false);
    },
  ));

// conformance: b2.spend.agent
Deno.test("what an agent says it has cost is kept as its claim beside the broker's own figure", () =>
  withPrograms({ claude: CLAUDE }, {}, async (bench) => {
    const { id } = await bench.submit({ agent: "claude" });
    const record = await bench.reaches(id, "awaiting_approval");
    assertEquals(record.claimed_usd, 0.0421);
    assertEquals([record.spend?.usd, record.spend?.requests], [0, 0]);
  }));

Deno.test("an agent that exits with an error fails its task, and says with which code", () =>
  withPrograms({ claude: "echo broken >&2; exit 7" }, {}, async (bench) => {
    const { id } = await bench.submit({ agent: "agent_a" });
    const done = await bench.reaches(id);
    assertEquals([done.outcome, done.reason], ["agent_failed", "the agent ended with code 7"]);
  }));

// conformance: b2.effect.task_timeout
Deno.test("an agent that runs longer than task_timeout is ended with everything it started", () =>
  withPrograms({ claude: "sleep 600 & sleep 600" }, { config: "task_timeout: 1s\n" }, async (bench) => {
    const { id } = await bench.submit({ agent: "agent_a" });
    const done = await bench.reaches(id);
    assertEquals([done.outcome, done.reason], ["timed_out", "it ran longer than task_timeout (1s)"]);
  }));

/** The same, for a repository with a profile. */
async function withProfile(
  programs: Record<string, string>,
  profile: string,
  test: (bench: BrokerBench, repo: string, runtime: ProcessRuntime) => Promise<void>,
): Promise<void> {
  const files = { "package-lock.json": "{}\n" };
  await withPrograms({ claude: CLAUDE, ...programs }, { files }, async (bench, runtime) => {
    await using server = await serveGit(bench.git.root);
    const place = `${server.origin.slice("http://".length)}/acme/app`;
    await bench.broker.stop();
    bench.configure(`profiles:\n  repos:\n    "${place}":\n${profile}`);
    await bench.serve();
    await test(bench, `${server.origin}/acme/app`, runtime);
  });
}

// conformance: b2.profiles.setup b2.profiles.evidence b2.profiles.log b3.setting_up
Deno.test("a profile's commands run before the agent without a token; the brief has exit codes", () =>
  withProfile(
    { prepare: "echo preparing; echo made > made.txt", ready: "test -f made.txt" },
    `      setup: [["prepare"]]
      readiness: [["ready"]]
`,
    async (bench, repo, runtime) => {
      const { id } = await bench.submit({ agent: "agent_a", repo });
      const record = await bench.reaches(id, "awaiting_approval");
      assertEquals(record.stage, "awaiting_approval", record.reason);
      const { setup } = await bench.engine.brief(id);
      assertEquals(setup?.commands.map(({ phase, status, exit_code }) => [phase, status, exit_code]), [
        ["setup", "passed", 0],
        ["readiness", "passed", 0],
      ]);
      const tokens = runtime.specs.map((spec) => /taskd-[0-9a-f]{64}/.test(JSON.stringify(spec)));
      assertEquals(tokens, [false, false, true]);
      assertStringIncludes(await Deno.readTextFile(`${bench.home}/.taskd/audit/${id}.setup.log`), "preparing");
    },
  ));

// conformance: b2.profiles.verdict b2.profiles.readiness
Deno.test("a profile's command that fails ends the task before any money is spent", () =>
  withProfile({ prepare: "exit 3" }, `      setup: [["prepare"]]\n`, async (bench, repo, runtime) => {
    const { id } = await bench.submit({ agent: "agent_a", repo });
    const done = await bench.reaches(id);
    assertEquals([done.outcome, done.spend, runtime.specs.length], ["setup_failed", undefined, 1]);
    assertStringIncludes(done.reason!, "exit code 3");
    assertEquals((await bench.engine.brief(id)).setup?.commands[0]?.exit_code, 3);
  }));

// conformance: b2.profiles.stage b3.setting_up
Deno.test("ended while the profile's commands run: the command ends, and the task is cancelled", () =>
  withProfile({ prepare: "sleep 600" }, `      setup: [["prepare"]]\n`, async (bench, repo) => {
    const { id } = await bench.submit({ agent: "agent_a", repo });
    await bench.reaches(id, "setting_up");
    await bench.engine.kill(id, "enough");
    assertEquals((await bench.reaches(id)).outcome, "cancelled");
  }));

const CODE_HOST_BENCH = `case "$*" in
  *"pr create"*) echo "https://git.example.com/acme/app/pull/7";;
esac`;

Deno.test("a path is no code host: gh is not asked for a pull request", () =>
  withPrograms({ claude: CLAUDE }, { gh: `touch ${"$"}0.called\n${CODE_HOST_BENCH}` }, async (bench) => {
    const done = await bench.pushed({ agent: "agent_a" });
    assertEquals([done.outcome, done.pushed?.pull_request], ["pushed", undefined]);
  }));

Deno.test("a request that cannot succeed is refused before there is a task, and says what to change", () =>
  withPrograms({ claude: CLAUDE }, {}, async (bench) => {
    const cases: [Parameters<BrokerBench["submit"]>[0], string, string][] = [
      [{ repo: "ext::sh -c id" }, "invalid_request", "repository"],
      [{ repo: "-u" }, "invalid_request", "option"],
      [{ agent: "agent_x" }, "invalid_request", "agent_x"],
      [{ agent: "agent_b" }, "auth_failed", "VENDORB_API_KEY"],
      [{ agent: "agent_c" }, "auth_failed", "VENDORC_API_KEY"],
      [{ base: "--upload-pack=x" }, "invalid_request", "base"],
      [{ model: "--yolo" }, "invalid_request", "model"],
      [{ egress_extra: [{ host: "127.0.0.1", ports: [80] }] }, "invalid_request", "address"],
      [{ egress_extra: [{ host: "2130706433", ports: [80] }] }, "invalid_request", "address"],
      [{ egress_extra: [{ host: "[::1]", ports: [80] }] }, "invalid_request", "address"],
      [{ egress_extra: [{ host: "localhost", ports: [80] }] }, "invalid_request", "public internet"],
      [{ egress_extra: [{ host: "metadata.google.internal", ports: [80] }] }, "invalid_request", "public internet"],
      [{ egress_extra: [{ host: "*.com", ports: [443] }] }, "invalid_request", "public internet"],
      [{ egress_extra: [{ host: "a b", ports: [443] }] }, "invalid_request", "host name"],
      [{ databases: ["shop"] }, "daemon_unreachable", "taskd serve"],
      [{ databases: ["shop", "shop@dev"] }, "invalid_request", "named twice"],
    ];
    for (const [request, code, word] of cases) {
      const error = await assertRejects(() => bench.submit({ agent: "agent_a", ...request }), TaskdError);
      assertEquals(error.code, code, JSON.stringify(request));
      assertStringIncludes(`${error.message} ${error.hint}`, word);
    }
    assertEquals(bench.engine.tasks.size, 0);
  }));

Deno.test("the embedded runtime refuses what it cannot run, and names the remedy", async () => {
  await using bench = await BrokerBench.prepare({ env: { VENDORA_API_KEY: "sk-vendor-a-0123456789" } });
  bench.configure(`profiles:\n  repos:\n    git.example.com/acme/app:\n      setup: [["npm", "ci"]]\n`);
  await bench.serve();
  for (
    const request of [
      { agent: "agent_a" },
      { platform: "linux/amd64" },
      { repo: "https://git.example.com/acme/app" },
    ]
  ) {
    const error = await assertRejects(() => bench.submit(request), TaskdError);
    assertEquals(error.code, "invalid_request");
    assertStringIncludes(error.hint!, "podman");
  }
});

// conformance: b2.compat.base_url b2.compat.model
Deno.test("agent_d without an endpoint or without a model is refused, and names the setting", async () => {
  await using bench = await BrokerBench.prepare();
  const config = (compat: string) =>
    Deno.writeTextFileSync(
      `${bench.home}/.taskd/config.yaml`,
      `runtime: deno\nbroker:\n  socket: ${bench.root}/s/taskd.sock\n${compat}`,
    );
  for (
    const [compat, word] of [["", "compat.base_url"], [`compat:\n  base_url: ${bench.model.url}\n`, "compat.model"]]
  ) {
    config(compat!);
    const broker = await bench.serve();
    const error = await assertRejects(() => bench.submit({ agent: "agent_d" }), TaskdError);
    assertStringIncludes(error.hint!, word!);
    await broker.stop();
  }
});

longTest("attack: an image rebuilt under its name does not get the old one's cache", () =>
  withProfile(
    { prepare: "true" },
    `      setup: [["prepare"]]
      cache: true
`,
    async (bench, repo, runtime) => {
      const participation = async (digest: string | undefined) => {
        runtime.digest = digest;
        const { id } = await bench.submit({ agent: "agent_a", repo });
        await bench.reaches(id, "awaiting_approval");
        const { setup, image_digest, missing_evidence } = await bench.engine.brief(id);
        const unknown = missing_evidence.some((text) => text.includes("image"));
        return [setup?.cache.participation, image_digest, unknown];
      };
      const [old, fresh] = ["a", "b"].map((digit) => `sha256:${digit.repeat(64)}`);
      assertEquals(await participation(old), ["miss", old, false]);
      assertEquals(await participation(old), ["hit", old, false]);
      assertEquals(await participation(fresh), ["miss", fresh, false]);
      assertEquals(await participation(undefined), ["miss", null, true]);
    },
  ));

longTest(
  "attack: a tree of 15,000 levels ends the task; its scratch is removed",
  () =>
    withPrograms(
      { claude: `exec /usr/bin/perl -e 'for (1 .. 15000) { mkdir "d"; chdir "d" or die }'` },
      {},
      async (bench) => {
        const { id } = await bench.submit({ agent: "agent_a" });
        const record = await bench.reaches(id, "awaiting_approval");
        if (record.stage !== "done") await bench.engine.deny(id, "too deep");
        assertEquals([(await bench.engine.view(id)).stage, bench.staged()], ["done", []]);
      },
    ),
);
