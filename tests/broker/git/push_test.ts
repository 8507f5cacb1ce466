import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import { join } from "@std/path/join";
import { commitTree } from "../../../broker/git/commit.ts";
import { operatorCredentials } from "../../../broker/git/credentials.ts";
import { collectFacts } from "../../../broker/git/diff_facts.ts";
import { Git } from "../../../broker/git/git.ts";
import { pushCommit, type PushOptions, type PushRetry } from "../../../broker/git/push.ts";
import { parseRepo } from "../../../broker/git/repo_url.ts";
import { stageRepository } from "../../../broker/git/staged_repository.ts";
import { TaskdError } from "../../../lib/errors.ts";
import { VirtualClock } from "../../support/clock.ts";
import { GitBench, plainGit, writeFiles } from "./bench.ts";
import { type Fault, type GitRequest, type GitServer, serveGit } from "./git_server.ts";

/** A task with a commit to push, over HTTP. */
class PushBench implements AsyncDisposable {
  readonly bench: GitBench;
  readonly server: GitServer;
  readonly options: PushOptions;
  readonly retries: PushRetry[] = [];
  /** Decides on pushes; what leads up to them passes. */
  decide: (request: GitRequest) => Fault = () => "pass";

  private constructor(bench: GitBench, server: GitServer, options: PushOptions) {
    this.bench = bench;
    this.server = server;
    this.options = { ...options, onRetry: (retry) => this.retries.push(retry) };
  }

  static async start(): Promise<PushBench> {
    const bench = await GitBench.start({ files: { "a.txt": "a\n" } });
    let self: PushBench | undefined = undefined as PushBench | undefined;
    const server = await serveGit(bench.root, (request) => self?.decide(request) ?? "pass");
    const url = parseRepo(`${server.origin}/acme/app.git`);
    const staged = await stageRepository(bench.git, {
      url,
      git_dir: join(bench.root, "t", "git"),
      work_tree: join(bench.root, "t", "work"),
    });
    await writeFiles(staged.work_tree, { "a.txt": "changed\n", "b.txt": "new\n" });
    const { tree } = await collectFacts(bench.git, staged);
    const { git_dir, base_commit } = staged;
    const who = { name: "Op", email: "op@example.com", at_ms: Date.UTC(2026, 0, 2) };
    const commit = await commitTree(bench.git, { git_dir, tree, base_commit, message: "Change a\n", ...who });
    const limits = { max_retries: 3, retry_backoff_ms: 1_000, fresh_branch_tries: 2 };
    self = new PushBench(bench, server, { url, git_dir, commit, tree, base_commit, task_id: "t1", ...limits });
    return self;
  }

  /** Pushes with virtual time, advancing it through every wait; answers what was slept. */
  async push(options: Partial<PushOptions> = {}) {
    const clock = new VirtualClock();
    const waits: number[] = [];
    const git = new Git({
      home: this.bench.git.home,
      clock: {
        now: () => clock.now(),
        monotonic: () => clock.monotonic(),
        sleep: (ms, signal) => {
          // Deadlines of processes stay for the real clock to keep: they are minutes.
          if (signal !== undefined) return clock.sleep(ms, signal);
          waits.push(ms);
          return Promise.resolve();
        },
      },
    });
    return { result: await pushCommit(git, { ...this.options, ...options }), waits };
  }

  /** What the code host has under a branch. */
  remote(branch: string): Promise<string> {
    return plainGit(this.bench.origin, "rev-parse", `refs/heads/${branch}`);
  }

  async refused(options: Partial<PushOptions> = {}): Promise<TaskdError> {
    return await assertRejects(() => this.push(options), TaskdError);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.server[Symbol.asyncDispose]();
    await this.bench[Symbol.asyncDispose]();
  }
}

const RECEIVE = "/git-receive-pack";

/** The first requests that match get these faults, the rest pass. */
function faults(path: string, ...staged: Fault[]): (request: GitRequest) => Fault {
  return ({ url }) => url.includes(path) ? staged.shift() ?? "pass" : "pass";
}

Deno.test("a push makes agent/<id> with the approved commit, and nothing else", async () => {
  await using bench = await PushBench.start();
  const { result } = await bench.push();
  assertEquals(result, { branch: "agent/t1", commit: bench.options.commit, attempts: 1 });
  assertEquals(await bench.remote("agent/t1"), bench.options.commit);
  assertEquals(await plainGit(bench.bench.origin, "rev-parse", "agent/t1^{tree}"), bench.options.tree);
  assertEquals(
    await plainGit(bench.bench.origin, "for-each-ref", "--format=%(refname)"),
    "refs/heads/agent/t1\nrefs/heads/main",
  );
  assertEquals(
    await plainGit(bench.bench.origin, "show", "-s", "--format=%an %ae %ct %s", "agent/t1"),
    "Op op@example.com 1767312000 Change a",
  );
});

Deno.test("a bare repository by path is pushed to as well", async () => {
  await using bench = await PushBench.start();
  const { result } = await bench.push({ url: parseRepo(bench.bench.origin) });
  assertEquals([result.branch, await bench.remote("agent/t1")], ["agent/t1", bench.options.commit]);
});

// conformance: b2.effect.push_max_retries b2.effect.push_retry_backoff
Deno.test("transient failures are retried after 1, 2 and 4 times the backoff", async () => {
  for (const fault of ["reset", { status: 500 }, { status: 503 }, { status: 429 }] as const) {
    await using bench = await PushBench.start();
    bench.decide = faults("service=git-receive-pack", fault, fault, fault);
    const { result, waits } = await bench.push();
    assertEquals([result.attempts, waits], [4, [1_000, 2_000, 4_000]], JSON.stringify(fault));
    assertEquals(bench.retries.map(({ reason }) => reason), ["transient", "transient", "transient"]);
  }
});

// conformance: b2.effect.push_retry_backoff
Deno.test("the backoff doubles with every retry, however long that comes to; 0 is no delay at all", async () => {
  const fault = { status: 503 } as const;
  // The widest of both settings.
  const [max_retries, longest_ms] = [10, 600_000];
  for (const retry_backoff_ms of [longest_ms, 0]) {
    await using bench = await PushBench.start();
    bench.decide = faults("service=git-receive-pack", ...Array<Fault>(max_retries).fill(fault));
    const { result, waits } = await bench.push({ max_retries, retry_backoff_ms });
    assertEquals(result.attempts, max_retries + 1);
    assertEquals(waits, Array.from({ length: max_retries }, (_, n) => retry_backoff_ms * 2 ** n));
  }
});

// conformance: b2.effect.push_max_retries
Deno.test("a failure that outlasts the retries is the answer; 0 retries is one try", async () => {
  await using bench = await PushBench.start();
  bench.decide = ({ url }) => url.includes("git-receive-pack") ? "reset" : "pass";
  assertEquals((await bench.refused()).code, "unavailable");
  assertEquals(bench.retries.length, 3);
  assertEquals((await bench.refused({ max_retries: 0 })).code, "unavailable");
  assertEquals(bench.retries.length, 3);
});

Deno.test("a push whose answer was lost is success, under the first name", async () => {
  await using bench = await PushBench.start();
  bench.decide = faults(`app.git${RECEIVE}`, "lose_answer");
  assertEquals((await bench.push()).result.branch, "agent/t1");
  const sent = () => bench.server.requests.filter(({ url }) => url.endsWith(`app.git${RECEIVE}`)).length;
  assertEquals(sent(), 2);
  // Twice: the HTTP client repeats once by itself, so that within one push the second meets the first.
  bench.decide = faults(`app.git${RECEIVE}`, "lose_answer", "lose_answer");
  assertEquals((await bench.push({ task_id: "t2" })).result.branch, "agent/t2");
  assertEquals(bench.retries.length, 1);
});

Deno.test("a push that cannot be verified at first is verified later", async () => {
  await using bench = await PushBench.start();
  bench.decide = faults("service=git-upload-pack", { status: 502 });
  const { result } = await bench.push();
  assertEquals([result.branch, result.attempts], ["agent/t1", 2]);
});

Deno.test("a push that has arrived is success, however often that could not be seen", async () => {
  await using bench = await PushBench.start();
  // Each of the four tries, and two of the looks that follow.
  bench.decide = faults("service=git-upload-pack", ...Array<Fault>(6).fill({ status: 502 }));
  const { result, waits } = await bench.push();
  assertEquals(result, { branch: "agent/t1", commit: bench.options.commit, attempts: 4 });
  assertEquals(waits, [1_000, 2_000, 4_000, 1_000, 1_000]);
});

Deno.test("a failed push that may have arrived is reported as such, with where to look", async () => {
  await using bench = await PushBench.start();
  bench.decide = ({ url }) => url.includes("service=git-upload-pack") ? { status: 502 } : "pass";
  const { code, message, hint } = await bench.refused();
  assertEquals(code, "unavailable");
  assertMatch(message, /; and whether it has arrived cannot be seen now$/);
  assertEquals(
    hint,
    "Look for agent/t1 on the code host once it can be reached, before the change is pushed again",
  );
  assertEquals(await bench.remote("agent/t1"), bench.options.commit);
});

// conformance: b2.effect.push_fresh_branch_tries b7.collision
Deno.test("a taken name leads to -2 and -3, and what stands under it is never moved, not even forward", async () => {
  await using bench = await PushBench.start();
  const { base_commit } = bench.options;
  // An ancestor of the commit: a plain push would move it forward.
  await plainGit(bench.bench.origin, "branch", "agent/t1", base_commit);
  assertEquals((await bench.push()).result.branch, "agent/t1-2");
  await plainGit(bench.bench.origin, "update-ref", "refs/heads/agent/t1-2", base_commit);
  assertEquals((await bench.push()).result.branch, "agent/t1-3");
  await plainGit(bench.bench.origin, "update-ref", "refs/heads/agent/t1-3", base_commit);
  const error = await bench.refused();
  assertEquals(error.code, "already_exists");
  for (const name of ["agent/t1", "agent/t1-2", "agent/t1-3"]) assertEquals(await bench.remote(name), base_commit);
  assertEquals((await bench.refused({ fresh_branch_tries: 0 })).code, "already_exists");
});

Deno.test("a branch in the way of agent/ is named in the hint", async () => {
  await using bench = await PushBench.start();
  await plainGit(bench.bench.origin, "branch", "agent", "main");
  const error = await bench.refused();
  assertEquals(error.code, "already_exists");
  assert(error.hint!.includes("named agent"));
});

Deno.test("a hook's refusal is reported with its words and not retried", async () => {
  await using bench = await PushBench.start();
  const hook = join(bench.bench.origin, "hooks", "pre-receive");
  await writeFiles(bench.bench.origin, {
    "hooks/pre-receive": "#!/bin/sh\nprintf 'no \\033[31msecrets\\n' >&2\nexit 1\n",
  });
  await Deno.chmod(hook, 0o755);
  const error = await bench.refused();
  assertEquals(error.code, "push_rejected");
  assert(error.message.includes("hook declined") && error.message.includes("secrets"), error.message);
  assert(!error.message.includes("\u001b"));
  assertEquals(bench.retries, []);
});

Deno.test("missing access, a missing repository and a redirection get different codes and no retry", async () => {
  const table: [Fault, string][] = [
    [{ status: 401 }, "auth_failed"],
    [{ status: 403 }, "auth_failed"],
    [{ status: 404 }, "not_found"],
    [{ status: 301, location: "http://127.0.0.1:9/acme/app.git" }, "not_found"],
  ];
  for (const [fault, code] of table) {
    await using bench = await PushBench.start();
    bench.decide = () => fault;
    assertEquals([(await bench.refused()).code, bench.retries], [code, []], JSON.stringify(fault));
  }
});

Deno.test("a commit with another tree or parent than the approved is not pushed", async () => {
  await using bench = await PushBench.start();
  const { base_commit, git_dir } = bench.options;
  const base_tree = await plainGit(git_dir, "rev-parse", `${base_commit}^{tree}`);
  assertEquals((await bench.refused({ tree: base_tree })).code, "corrupt");
  assertEquals((await bench.refused({ commit: base_commit })).code, "corrupt");
  assertEquals((await bench.refused({ task_id: "../main" })).code, "invalid_request");
  assert(!bench.server.requests.some(({ url }) => url.includes("receive-pack")));
});

Deno.test("a host that rewrites new branches is not believed", async () => {
  await using bench = await PushBench.start();
  const hook = "#!/bin/sh\nwhile read _ _ ref; do git update-ref $ref main; done\n";
  await writeFiles(bench.bench.origin, { "hooks/post-receive": hook });
  await Deno.chmod(join(bench.bench.origin, "hooks", "post-receive"), 0o755);
  assertEquals((await bench.refused()).code, "ambiguous");
});

Deno.test("an abort ends a push that waits", async () => {
  await using bench = await PushBench.start();
  bench.decide = ({ url }) => url.includes("git-receive-pack") ? "reset" : "pass";
  const abort = new AbortController();
  const retried = Promise.withResolvers<void>();
  const pushed = pushCommit(bench.bench.git, {
    ...bench.options,
    retry_backoff_ms: 3_600_000,
    signal: abort.signal,
    onRetry: () => retried.resolve(),
  });
  await retried.promise;
  abort.abort(new Error("stop"));
  await assertRejects(() => pushed, Error, "stop");
});

Deno.test("gh's credentials go to their own host over HTTP, and into no message and no other command", async () => {
  await using bench = await PushBench.start();
  const { root } = bench.bench;
  const gh = join(root, "bin dir", "gh");
  await writeFiles(root, {
    "bin dir/gh": `#!/bin/sh
echo "$@" >> ${root}/gh.log
cat > /dev/null
[ "$3" = get ] && printf 'username=x-access-token\\npassword=%s\\n' "$GH_TOKEN"
exit 0
`,
  });
  await Deno.chmod(gh, 0o755);
  const basic = `Basic ${btoa("x-access-token:t0psecret")}`;
  bench.decide = ({ authorization }) => authorization === basic ? "pass" : { status: 401 };
  const { url } = bench.options;
  const env = { GH_TOKEN: "t0psecret", HOME: root, AWS_SECRET: "x", SSH_AUTH_SOCK: "/agent", GIT_DIR: "/evil" };
  const credentials = operatorCredentials(url, { env, gh_path: gh });
  assertEquals(Object.keys(credentials.env).sort(), ["GH_TOKEN", "HOME"]);
  assertEquals((await bench.push({ credentials })).result.branch, "agent/t1");
  assert((await Deno.readTextFile(join(root, "gh.log"))).includes("auth git-credential get"));
  const stale = operatorCredentials(url, { env: { ...env, GH_TOKEN: "wr0ng" }, gh_path: gh });
  const error = await bench.refused({ credentials: stale, task_id: "t2" });
  assertEquals(error.code, "auth_failed");
  assert(!JSON.stringify([error.message, error.hint, bench.retries]).includes("wr0ng"));
  const other = operatorCredentials(parseRepo("https://github.com/acme/app"), { env, gh_path: gh });
  assertEquals((await bench.refused({ credentials: other, task_id: "t2" })).code, "auth_failed");
});
