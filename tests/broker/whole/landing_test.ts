import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { TaskdError } from "../../../lib/errors.ts";
import type { TaskRecord } from "../../../broker/task/schema.ts";
import { systemClock } from "../../../lib/clock.ts";
import { VirtualClock } from "../../support/clock.ts";
import { longTest, scaled, scaledTest } from "../../support/long.ts";
import { writeProgram } from "../../support/programs.ts";
import { SeededRandom } from "../../support/writers/random.ts";
import { type BenchOptions, BrokerBench, until } from "../engine/bench.ts";
import { BrokerProcess } from "../engine/broker_process.ts";
import { plainGit, writeFiles } from "../git/bench.ts";
import { type Fault, type GitRequest, serveGit } from "../git/git_server.ts";

/** A repository behind HTTP whose pushes a test lets through or not; the broker does not run yet. */
async function hosted(
  options: BenchOptions,
  test: (hosted: {
    bench: BrokerBench;
    repo: string;
    host: { decide: (request: GitRequest) => Fault };
  }) => Promise<void>,
): Promise<void> {
  const host = { decide: (_request: GitRequest): Fault => "pass" };
  await using bench = await BrokerBench.prepare(options);
  await using server = await serveGit(bench.git.root, (request) => host.decide(request));
  await test({ bench, repo: `${server.origin}/acme/app.git`, host });
}

const DOWN = (): Fault => ({ status: 503 });

/** Names of the remote's branches that tasks have made. */
async function arrived(bench: BrokerBench): Promise<string[]> {
  return [...(await bench.branches()).keys()].filter((name) => name.startsWith("agent/"));
}

/** Brings a task to its gate, takes the code host away, approves; `tick` moves a clock that stands still. */
async function failed(
  bench: BrokerBench,
  repo: string,
  host: { decide: (request: GitRequest) => Fault },
  tick = () => {},
): Promise<TaskRecord> {
  const { id } = await bench.submit({ repo });
  const { gate } = await bench.reaches(id, "awaiting_approval");
  host.decide = DOWN;
  await bench.engine.approve(id, { diff_sha256: gate!.diff_sha256, acknowledge: [] });
  await until(() => {
    tick();
    return bench.engine.tasks.read(id).stage === "push_failed";
  });
  return bench.engine.tasks.read(id);
}

longTest("an approved change lands by itself after ten minutes of 503", () => {
  const clock = new VirtualClock();
  return hosted({ clock, env: { TASKD_PUSH_RETRY_BACKOFF: "1s" } }, async ({ bench, repo, host }) => {
    await bench.serve();
    const { id } = await bench.submit({ repo });
    const { gate } = await bench.reaches(id, "awaiting_approval");
    const back_ms = clock.monotonic() + 600_000;
    let refused = 0;
    host.decide = () => clock.monotonic() < back_ms ? (refused++, { status: 503 }) : "pass";
    await bench.engine.approve(id, { diff_sha256: gate!.diff_sha256, acknowledge: [] });
    await until(() => {
      clock.advance(10_000);
      return bench.engine.tasks.read(id).stage === "done";
    });
    const { outcome, push_attempts } = bench.engine.tasks.read(id);
    assertEquals([outcome, await arrived(bench)], ["pushed", [`agent/${id}`]]);
    assert(refused > 4, `${refused} requests were refused`);
    assertEquals(push_attempts.length, 1, "one commit, one branch");
    assertEquals(bench.staged(), []);
  });
});

Deno.test("a change that the host refuses waits with its tree, and push lands it without an agent", () =>
  hosted({ runs_hooks: true }, async ({ bench }) => {
    await bench.serve();
    const hook = `${bench.git.origin}/hooks/pre-receive`;
    await writeProgram(hook, "#!/bin/sh\necho 'main is frozen' >&2\nexit 1\n");
    const waiting = await bench.pushed();
    assertEquals([waiting.stage, waiting.outcome], ["push_failed", undefined]);
    assertStringIncludes(waiting.reason!, "main is frozen");
    assertEquals(bench.staged(), [waiting.id]);
    const asked = bench.model.asked.length;
    await bench.engine.push(waiting.id);
    await bench.reaches(waiting.id);
    await Deno.remove(hook);
    const by = { via: "command line", who: "ada" } as const;
    await bench.engine.push(waiting.id, { by });
    const done = await bench.reaches(waiting.id);
    assertEquals([done.push_asked?.by, done.ended_by], [by, undefined]);
    assertEquals([done.outcome, await arrived(bench)], ["pushed", [`agent/${done.id}`]], done.reason);
    assertEquals(done.push_attempts.length, 1);
    assertEquals(bench.model.asked.length, asked);
    assertEquals(bench.staged(), []);
  }));

/** A code host whose bot adds a commit to each new branch right after its push. */
const BOT = `#!/bin/sh
while read _ new ref; do
  bot=$(git -c user.name=bot -c user.email=bot@example.com commit-tree "$new^{tree}" -p "$new" -m format) || exit 1
  git update-ref "$ref" "$bot"
done
`;

for (const loses of [false, true]) {
  const what = loses ? "also when the push's answer is lost" : "and the record says so";
  Deno.test(`a branch that a bot of the code host adds to is pushed, ${what}`, () =>
    hosted({}, async ({ bench, repo, host }) => {
      await bench.serve();
      await writeProgram(`${bench.git.origin}/hooks/post-receive`, BOT);
      host.decide = ({ url, method }) =>
        loses && method === "POST" && url.includes("git-receive-pack") ? "lose_answer" : "pass";
      const done = await bench.pushed({ repo });
      assertEquals([done.outcome, await arrived(bench)], ["pushed", [`agent/${done.id}`]], done.reason);
      const head = (await bench.branches()).get(`agent/${done.id}`)!;
      assertEquals(await plainGit(bench.git.origin, "rev-parse", `${head}^`), done.pushed!.commit);
      const trace = await Deno.readTextFile(`${bench.home}/.taskd/audit/${done.id}.jsonl`);
      assertStringIncludes(trace, `the code host has ${head} on agent/${done.id} by now, on top of what was pushed`);
    }));
}

longTest("a broker that starts begins another round for what waits", () =>
  hosted({}, async ({ bench, repo, host }) => {
    await bench.serve();
    const { id, stage } = await failed(bench, repo, host);
    assertEquals(stage, "push_failed");
    await bench.broker.stop();
    host.decide = () => "pass";
    await bench.serve();
    assertEquals([(await bench.reaches(id, "done")).outcome, await arrived(bench)], ["pushed", [`agent/${id}`]]);
  }));

longTest("with push_max_retries 0 neither time nor a start pushes again, a person does", () => {
  const clock = new VirtualClock();
  return hosted({ clock, config: "push_max_retries: 0\n" }, async ({ bench, repo, host }) => {
    await bench.serve();
    const { id } = await failed(bench, repo, host);
    host.decide = () => "pass";
    clock.advance(86_400_000);
    await bench.broker.stop();
    await bench.serve();
    clock.advance(86_400_000);
    const { stage, seq } = bench.engine.tasks.read(id);
    await systemClock.sleep(200);
    assertEquals([stage, bench.engine.tasks.read(id).seq, await arrived(bench)], ["push_failed", seq, []]);
    await bench.engine.push(id);
    assertEquals((await bench.reaches(id, "done")).outcome, "pushed");
  });
});

longTest("after push_retry_for nothing is tried by itself, and the change is still kept", () => {
  const clock = new VirtualClock();
  return hosted({ clock, config: "push_retry_for: 5m\n" }, async ({ bench, repo, host }) => {
    await bench.serve();
    // Waits between the tries of one round are of 0 ms: the smallest step ends them.
    const tick = () => clock.advance(1);
    const { id } = await failed(bench, repo, host, tick);
    const rounds = () => bench.lines.filter((line) => line.includes("came to push_failed")).length;
    for (const pause_ms of [60_000, 120_000]) {
      const before = rounds();
      await clock.sleeper(pause_ms);
      clock.advance(pause_ms);
      await until(() => {
        tick();
        return rounds() > before;
      });
    }
    // The next pause, of four minutes, would end after the five.
    host.decide = () => "pass";
    clock.advance(86_400_000);
    await systemClock.sleep(200);
    assertEquals([bench.engine.tasks.read(id).stage, bench.staged()], ["push_failed", [id]]);
    await bench.engine.push(id);
    assertEquals((await bench.reaches(id, "done")).outcome, "pushed");
  });
});

longTest(
  "what waits is given up by name: it ends as cancelled, its tree goes, its reason stays",
  () =>
    hosted({}, async ({ bench, repo, host }) => {
      await bench.serve();
      const { id } = await failed(bench, repo, host);
      assertEquals(bench.staged(), [id]);
      await bench.engine.kill(id, "done by hand");
      const { outcome, reason } = await bench.reaches(id);
      assertEquals(outcome, "cancelled");
      assertStringIncludes(reason!, "given up: done by hand; it had failed: ");
      assertStringIncludes(reason!, "503");
      assertEquals([bench.staged(), await arrived(bench)], [[], []]);
      await assertRejects(() => bench.engine.push(id), TaskdError, "it is done (cancelled)");
    }),
);

longTest(
  "of two people who push at once one begins a round, the other learns where it is",
  () =>
    hosted({}, async ({ bench, repo, host }) => {
      await bench.serve();
      const { id } = await failed(bench, repo, host);
      host.decide = () => "pass";
      const asked = await Promise.allSettled([bench.engine.push(id), bench.engine.push(id)]);
      const refused = asked.flatMap((one) => one.status === "rejected" ? [one.reason.code] : []);
      assertEquals(refused, ["wrong_state"]);
      assertEquals([(await bench.reaches(id, "done")).outcome, await arrived(bench)], ["pushed", [`agent/${id}`]]);
    }),
);

longTest("a change whose tree is lost is never pushed, and says so", () =>
  hosted({}, async ({ bench, repo, host }) => {
    await bench.serve();
    const { id } = await failed(bench, repo, host);
    host.decide = () => "pass";
    await Deno.remove(`${bench.home}/.taskd/stage/${id}/git/objects`, { recursive: true });
    await bench.engine.push(id);
    const { stage, reason } = await bench.reaches(id);
    assertEquals(stage, "push_failed");
    assertStringIncludes(reason!, "Cannot push what was approved");
    assertEquals(await arrived(bench), []);
  }));

// Whatever the moment: the branch is there once, with the approved change, or the task waits.
scaledTest("a broker killed at any moment after the approval: the change lands exactly once", async () => {
  const random = new SeededRandom(5);
  for (let round = 0; round < scaled({ short: 2, long: 20, longest: 200 }); round++) {
    await hosted({}, async ({ bench, repo, host }) => {
      const faults: Fault[] = ["pass", "reset", "lose_answer", { status: 503 }];
      host.decide = ({ url }) => url.includes("git-receive-pack") ? random.pick(faults) : "pass";
      let id = "";
      {
        await using broker = new BrokerProcess(bench);
        await broker.says("broker_started");
        id = (await broker.client.submit({ repo, instruction: "Say hello" })).id;
        await broker.says("task_stage", "awaiting_approval");
        const { gate } = await broker.client.task(id);
        await broker.client.approve(id, { diff_sha256: gate!.diff_sha256, acknowledge: [] });
        await systemClock.sleep(random.between(0, 400));
        await broker.kill();
      }
      for (let life = 0; life < 2; life++) {
        await using broker = new BrokerProcess(bench);
        await broker.says("broker_started");
        await systemClock.sleep(random.between(0, 400));
        await broker.kill();
      }
      host.decide = () => "pass";
      await bench.serve();
      const done = await bench.reaches(id, "done");
      assertEquals(done.outcome, "pushed", `round ${round}: ${done.reason}`);
      assertEquals(await arrived(bench), [done.pushed!.branch], `round ${round}`);
      assertEquals((await bench.branches()).get(done.pushed!.branch), done.pushed!.commit);
    });
  }
});

Deno.test("the gate says what has happened under the change: moved on, rewritten, deleted, host away", () =>
  hosted({ files: { "hello.txt": "old\n", "other.txt": "old\n" } }, async ({ bench, repo, host }) => {
    await bench.serve();
    const { id } = await bench.submit({ repo });
    await bench.reaches(id, "awaiting_approval");
    const notes = async () => (await bench.engine.bases(id)).notes.join("\n");
    assertEquals(await notes(), "");
    const work = `${bench.root}/other`;
    await plainGit(bench.root, "clone", "--quiet", bench.git.origin, work);
    for (const path of ["hello.txt", "other.txt"]) {
      await Deno.writeTextFile(`${work}/${path}`, "theirs\n");
      await plainGit(work, "commit", "--quiet", "-am", `change ${path}`);
    }
    await plainGit(work, "push", "--quiet", "origin", "main");
    assertEquals(
      await notes(),
      "main has moved on by 2 commits; 2 files differ there, 1 of them in this change too: hello.txt",
    );
    await plainGit(work, "checkout", "--quiet", "--orphan", "fresh");
    await plainGit(work, "commit", "--quiet", "-m", "rewritten");
    await plainGit(work, "push", "--quiet", "--force", "origin", "fresh:main");
    assertStringIncludes(await notes(), "main was rewritten: the commit that the change is made from is not in it");
    await plainGit(bench.git.origin, "update-ref", "-d", "refs/heads/main");
    assertStringIncludes(await notes(), "main is not on the code host any more");
    host.decide = DOWN;
    assertStringIncludes(await notes(), "Cannot see how main of 127.0.0.1");
    assertEquals(Deno.readDirSync(`${bench.home}/.taskd/stage/${id}/git`).some(({ name }) => name === "now"), false);
    host.decide = () => "pass";
    const { gate } = bench.engine.tasks.read(id);
    await bench.engine.approve(id, { diff_sha256: gate!.diff_sha256, acknowledge: gate!.second_look });
    assertEquals((await bench.reaches(id, "done")).outcome, "pushed");
  }));

/** How an operator has stored a login. */
const LOGINS: Record<string, (home: string, port: string) => Record<string, string>> = {
  "credential.helper": (home, port) => ({
    ".gitconfig": `[credential]\n\thelper = store --file ${home}/logins\n[core]\n\tfsmonitor = touch ${home}/ran\n`,
    logins: `http://op:s3cret@127.0.0.1:${port}\n`,
  }),
  "a helper for one host in an included file": (_, port) => ({
    ".config/git/config": "[include]\n\tpath = more\n",
    ".config/git/more": `[credential "http://127.0.0.1:${port}"]\n` +
      '\thelper = "!f() { echo username=op; echo password=s3cret; }; f"\n',
  }),
  ".netrc": () => ({ ".netrc": "machine 127.0.0.1 login op password s3cret\n" }),
};

for (const [what, files] of Object.entries(LOGINS)) {
  const test = what === "credential.helper" ? Deno.test : longTest;
  test(`a login that the operator's git has by ${what} clones and pushes`, () =>
    hosted({}, async ({ bench, repo, host }) => {
      host.decide = ({ authorization }) => authorization === `Basic ${btoa("op:s3cret")}` ? "pass" : { status: 401 };
      await writeFiles(bench.home, files(bench.home, new URL(repo).port));
      await bench.serve();
      const done = await bench.pushed({ repo });
      assertEquals([done.outcome, await arrived(bench)], ["pushed", [`agent/${done.id}`]], done.reason);
      assertEquals(bench.lines.join().includes("s3cret"), false);
      assertEquals(await Deno.stat(`${bench.home}/ran`).then(() => true, () => false), false);
    }));
}
