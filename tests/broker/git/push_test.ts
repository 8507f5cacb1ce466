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
import { writeProgram } from "../../support/programs.ts";
import { type Files, GitBench, plainGit, writeFiles } from "./bench.ts";
import { type Fault, type GitRequest, type GitServer, serveGit } from "./git_server.ts";
import { longTest } from "../../support/long.ts";

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

  /** With so many commits on main, and these files beside `a.txt`. */
  static async start(commits = 1, files: Files = {}): Promise<PushBench> {
    const bench = await GitBench.start({
      files: { "a.txt": "a\n", ...files },
      prepare: async (work) => {
        const commit = "commit refs/heads/main\ncommitter Op <op@example.com> 1 +0000\ndata 1\nn\n";
        const importing = new Deno.Command("/usr/bin/git", {
          args: ["-C", work, "fast-import", "--quiet"],
          stdin: "piped",
        }).spawn();
        await new Blob([commit.repeat(commits - 1)]).stream().pipeTo(importing.stdin);
        await importing.status;
      },
    });
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
    const who = { at_ms: Date.UTC(2026, 0, 2) };
    const commit = await commitTree(bench.git, { git_dir, tree, base_commit, message: "Change a\n", ...who });
    const limits = { max_retries: 3, retry_backoff_ms: 1_000, fresh_branch_tries: 2 };
    self = new PushBench(bench, server, { url, git_dir, commit, tree, base_commit, task_id: "t1", ...limits });
    return self;
  }

  /** Pushes with virtual time, advancing it through every wait; answers what was slept. */
  async push(options: Partial<PushOptions> = {}, git_path?: string) {
    const clock = new VirtualClock();
    const waits: number[] = [];
    const git = new Git({
      home: this.bench.git.home,
      wall: git_path === undefined ? this.bench.wall : undefined,
      ...(git_path === undefined ? {} : { places: [git_path] }),
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
    "taskd agent@taskd.invalid 1767312000 Change a",
  );
});

Deno.test("a bare repository by path is pushed to as well", async () => {
  await using bench = await PushBench.start();
  // By a git of the operator's own, at a path that would mean more to a shell.
  const folder = join(bench.bench.root, "it's $(id); exit 1 & #");
  await Deno.mkdir(folder);
  await writeProgram(join(folder, "git"), '#!/bin/sh\nexec /usr/bin/git "$@"\n');
  const { result } = await bench.push({ url: parseRepo(bench.bench.origin) }, join(folder, "git"));
  assertEquals([result.branch, await bench.remote("agent/t1")], ["agent/t1", bench.options.commit]);
});

// conformance: b2.effect.push_max_retries b2.effect.push_retry_backoff
longTest("transient failures are retried after 1, 2 and 4 times the backoff", async () => {
  for (const fault of ["reset", { status: 500 }, { status: 503 }, { status: 429 }] as const) {
    await using bench = await PushBench.start();
    bench.decide = faults("service=git-receive-pack", fault, fault, fault);
    const { result, waits } = await bench.push();
    assertEquals([result.attempts, waits], [4, [1_000, 2_000, 4_000]], JSON.stringify(fault));
    assertEquals(bench.retries.map(({ reason }) => reason), ["transient", "transient", "transient"]);
  }
});

// conformance: b2.effect.push_retry_backoff
longTest("the backoff doubles with every retry, however long that comes to; 0 is no delay at all", async () => {
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
  // A push asks there what the host has, and goes on without an answer; the look after it needs one.
  bench.decide = faults("service=git-upload-pack", { status: 502 }, { status: 502 });
  const { result } = await bench.push();
  assertEquals([result.branch, result.attempts], ["agent/t1", 2]);
});

longTest("a push that has arrived is success, however often that could not be seen", async () => {
  await using bench = await PushBench.start();
  // What each of the four tries asks before and after, and two of the looks that follow.
  bench.decide = faults("service=git-upload-pack", ...Array<Fault>(7).fill({ status: 502 }));
  const { result, waits } = await bench.push();
  assertEquals(result, { branch: "agent/t1", commit: bench.options.commit, attempts: 4 });
  assertEquals(waits, [1_000, 2_000, 4_000, 1_000, 1_000]);
});

longTest("a failed push that may have arrived is reported as such, with what looks again", async () => {
  await using bench = await PushBench.start();
  bench.decide = ({ url }) => url.includes("service=git-upload-pack") ? { status: 502 } : "pass";
  const { code, message, hint } = await bench.refused();
  assertEquals(code, "unavailable");
  assertMatch(message, /; and whether it has arrived cannot be seen now$/);
  assertEquals(hint, "The next round looks first: taskd push begins one");
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

longTest("a branch in the way of agent/ is named in the hint", async () => {
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

longTest("missing access, a missing repository and a redirection get different codes and no retry", async () => {
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

longTest("a host that rewrites new branches is not believed", async () => {
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

/** What happens to the base's branch while a task waits, by its repository's own git. */
const MOVES: { what: string; move: (bench: GitBench, work: string) => Promise<unknown> }[] = [
  { what: "moved forward", move: (_, work) => plainGit(work, "push", "--quiet", "origin", "HEAD:main") },
  {
    what: "was forced back by a commit",
    move: async (_, work) => {
      await plainGit(work, "reset", "--quiet", "--hard", "HEAD~2");
      await plainGit(work, "push", "--quiet", "--force", "origin", "HEAD:main");
    },
  },
  {
    what: "was forced to another history",
    move: async (_, work) => {
      await plainGit(work, "checkout", "--quiet", "--orphan", "other");
      await plainGit(work, "commit", "--quiet", "-m", "other");
      await plainGit(work, "push", "--quiet", "--force", "origin", "HEAD:main");
    },
  },
  {
    what: "was deleted",
    move: async ({ origin }, work) => {
      await plainGit(work, "push", "--quiet", "origin", "HEAD~2:refs/heads/kept");
      await plainGit(origin, "symbolic-ref", "HEAD", "refs/heads/kept");
      await plainGit(work, "push", "--quiet", "origin", ":main");
    },
  },
  {
    what: "was amended, and the old commit cleared away",
    move: async ({ origin }, work) => {
      await plainGit(work, "reset", "--quiet", "--hard", "HEAD~2");
      await plainGit(work, "commit", "--quiet", "--allow-empty", "-m", "amended");
      await plainGit(work, "push", "--quiet", "--force", "origin", "HEAD:main");
      await plainGit(origin, "reflog", "expire", "--expire=now", "--all");
      await plainGit(origin, "gc", "--quiet", "--prune=now");
    },
  },
];

for (const { what, move } of MOVES) {
  const test = what === "was deleted" ? Deno.test : longTest;
  test(`a base branch that ${what} while the task waited: the push works`, async () => {
    await using bench = await PushBench.start(3);
    const { origin } = bench.bench;
    const work = join(bench.bench.root, "other");
    await plainGit(bench.bench.root, "clone", "--quiet", origin, work);
    await plainGit(work, "commit", "--quiet", "--allow-empty", "-m", "after");
    await move(bench.bench, work);
    assertEquals(await plainGit(origin, "config", "--default", "false", "--get", "receive.shallowUpdate"), "false");
    // As hosts protect a branch.
    const script = "#!/bin/sh\nwhile read -r old new ref; do\n" +
      '  [ "$ref" != refs/heads/main ] || { echo "main is protected" >&2; exit 1; }\n' +
      '  git rev-list "$new" --not --all >/dev/null || exit 1\ndone\n';
    await writeProgram(`${origin}/hooks/pre-receive`, script);
    const { result } = await bench.push();
    assertEquals(await bench.remote(result.branch), bench.options.commit);
    await plainGit(origin, "fsck", "--strict", "--connectivity-only");
    assertEquals(
      await plainGit(origin, "diff", "--name-only", bench.options.base_commit, result.commit),
      "a.txt\nb.txt",
    );
  });
}

Deno.test("a forced push over more commits than are fetched at first: all are fetched then", async () => {
  await using bench = await PushBench.start(150);
  await plainGit(bench.bench.origin, "update-ref", "refs/heads/main", "HEAD~120");
  const { result } = await bench.push();
  assertEquals(await bench.remote(result.branch), bench.options.commit);
});

Deno.test("a base whose whole history is gone from the host: the push says so, and what to do", async () => {
  await using bench = await PushBench.start(3);
  const { origin, root } = bench.bench;
  const work = join(root, "other");
  await plainGit(root, "clone", "--quiet", origin, work);
  await plainGit(work, "checkout", "--quiet", "--orphan", "other");
  await plainGit(work, "commit", "--quiet", "-m", "other");
  await plainGit(work, "push", "--quiet", "--force", "origin", "HEAD:main");
  await plainGit(origin, "reflog", "expire", "--expire=now", "--all");
  await plainGit(origin, "gc", "--quiet", "--prune=now");
  const { code, message, hint } = await bench.refused();
  assertEquals(code, "push_rejected");
  assertMatch(message, /the base commit is on no branch there any more, and what led to it is gone$/);
  assertMatch(hint!, /^Bring the base commit back to some branch there/);
});

Deno.test("a host that goes away while history is fetched is tried again", async () => {
  await using bench = await PushBench.start(3);
  await plainGit(bench.bench.origin, "update-ref", "refs/heads/main", "HEAD~1");
  let away = 1;
  let pushed = false;
  bench.decide = ({ url, method }) => {
    pushed ||= method === "POST" && url.endsWith("/git-receive-pack");
    return pushed && url.includes("service=git-upload-pack") && away-- > 0 ? { status: 503 } : "pass";
  };
  const { result } = await bench.push();
  assertEquals(await bench.remote(result.branch), bench.options.commit);
});

Deno.test("a base branch that moved on: the change is sent, and not the whole tree", async () => {
  const bytes = new Uint8Array(2_000_000);
  for (let at = 0; at < bytes.length; at += 65_536) crypto.getRandomValues(bytes.subarray(at, at + 65_536));
  await using bench = await PushBench.start(1, { "big.bin": bytes });
  const { origin, root } = bench.bench;
  const work = join(root, "other");
  await plainGit(root, "clone", "--quiet", origin, work);
  await plainGit(work, "commit", "--quiet", "--allow-empty", "-m", "after");
  await plainGit(work, "push", "--quiet", "origin", "HEAD:main");
  const { result } = await bench.push();
  assertEquals(await bench.remote(result.branch), bench.options.commit);
  const sent = bench.server.requests.filter(({ url }) => url.endsWith("/git-receive-pack")).map(({ bytes }) => bytes);
  assert(Math.max(...sent) < 10_000, `${sent} bytes were sent`);
});
