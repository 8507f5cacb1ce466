import { assert, assertEquals, assertRejects } from "@std/assert";
import { join } from "@std/path/join";
import { parseRepo } from "../../../broker/git/repo_url.ts";
import { Gh } from "../../../broker/git/gh.ts";
import { TaskdError } from "../../../lib/errors.ts";
import { writeProgram } from "../../support/programs.ts";

/** One answer of the stand-in. */
interface Answer {
  stdout?: string;
  stderr?: string;
  code?: number;
}

/** A program in gh's place that writes down how it was called and answers in gh's shapes. */
class GhBench implements AsyncDisposable {
  readonly root: string;
  readonly gh: Gh;

  private constructor(root: string) {
    this.root = root;
    const env = {
      HOME: "/home/op",
      GH_TOKEN: "t0psecret",
      GH_HOST: "evil.example",
      GH_REPO: "evil.example/a/b",
      GH_ENTERPRISE_TOKEN: undefined,
      GH_DEBUG: "api",
      EDITOR: "/evil",
      SSH_AUTH_SOCK: "/agent",
      VENDORA_API_KEY: "k",
    };
    this.gh = new Gh({ path: join(root, "gh"), cwd: join(root, "empty"), env });
  }

  static async start(answer: Answer): Promise<GhBench> {
    const root = await Deno.makeTempDir();
    await Deno.mkdir(join(root, "empty"));
    await Deno.writeTextFile(join(root, "stdout"), answer.stdout ?? "");
    await Deno.writeTextFile(join(root, "stderr"), answer.stderr ?? "");
    const script = `#!/bin/bash
printf '%s\\0' "$@" > ${root}/args
/usr/bin/env -0 > ${root}/env
ls -A > ${root}/cwd
/bin/cat > ${root}/stdin
/bin/cat ${root}/stderr >&2
/bin/cat ${root}/stdout
exit ${answer.code ?? 0}
`;
    await writeProgram(join(root, "gh"), script);
    return new GhBench(root);
  }

  async read(name: string): Promise<string> {
    return await Deno.readTextFile(join(this.root, name));
  }

  async args(): Promise<string[]> {
    return (await this.read("args")).split("\0").slice(0, -1);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Deno.remove(this.root, { recursive: true });
  }
}

const REPO = parseRepo("git@github.com:acme/app.git");
const OID = "0123456789abcdef0123456789abcdef01234567";
const PULL = { repo: REPO, head: "agent/t1", base: "main", title: "Fix it", body: "Because.\n" };
const URL_12 = "https://github.com/acme/app/pull/12";

async function failure(answer: Answer, call: (gh: Gh) => Promise<unknown>): Promise<TaskdError> {
  await using bench = await GhBench.start(answer);
  return await assertRejects(() => call(bench.gh), TaskdError);
}

// conformance: b1.pull_request
Deno.test("a pull request is opened with everything pinned in the flags", async () => {
  await using bench = await GhBench.start({
    stdout: `${URL_12}\n`,
    stderr: "Creating pull request for agent/t1 into main in acme/app\n",
  });
  assertEquals(await bench.gh.createPullRequest(PULL), { number: 12, url: URL_12 });
  assertEquals(await bench.args(), [
    "pr",
    "create",
    "--repo=github.com/acme/app",
    "--head=agent/t1",
    "--base=main",
    "--title=Fix it",
    "--body-file=-",
  ]);
  assertEquals(await bench.read("stdin"), "Because.\n");
  await bench.gh.createPullRequest({ ...PULL, draft: true });
  assertEquals((await bench.args()).at(-1), "--draft");
});

// conformance: b2.ci.read_only b5.code_host
Deno.test("gh gets the operator's login and nothing that leads it elsewhere, in an empty directory", async () => {
  await using bench = await GhBench.start({ stdout: `${URL_12}\n` });
  await bench.gh.createPullRequest(PULL);
  assertEquals(await bench.read("cwd"), "");
  const env = new Map(
    (await bench.read("env")).split("\0").filter(Boolean).map((entry) => {
      const at = entry.indexOf("=");
      return [entry.slice(0, at), entry.slice(at + 1)];
    }),
  );
  for (const name of ["GH_HOST", "GH_REPO", "GH_DEBUG", "EDITOR", "SSH_AUTH_SOCK", "VENDORA_API_KEY"]) {
    assert(!env.has(name), name);
  }
  assertEquals([env.get("GH_TOKEN"), env.get("HOME"), env.get("GH_PROMPT_DISABLED")], ["t0psecret", "/home/op", "1"]);
});

Deno.test("what a task writes into title and body stays title and body", async () => {
  await using bench = await GhBench.start({ stdout: `${URL_12}\n` });
  const title = `--web\n\u001b[31m${"x".repeat(400)}`;
  await bench.gh.createPullRequest({ ...PULL, title, body: "y".repeat(70_000) });
  const given = (await bench.args()).find((arg) => arg.startsWith("--title="))!;
  assert(given.startsWith("--title=--web\\n\\x1b[31mxxx") && given.length <= "--title=".length + 256);
  assertEquals((await bench.read("stdin")).length, 65_536);
});

Deno.test("a pull request that exists already is the answer, also after a lost one", async () => {
  await using bench = await GhBench.start({
    code: 1,
    stderr: `a pull request for branch "agent/t1" into branch "main" already exists:\n${URL_12}\n`,
  });
  assertEquals(await bench.gh.createPullRequest(PULL), { number: 12, url: URL_12 });
});

Deno.test("a pull request of another repository or host is not believed", async () => {
  const others = [
    "https://github.com/acme/other/pull/1",
    "https://evil.example/acme/app/pull/1",
    "https://github.com/acme/app/pull/0",
    "https://github.com/acme/app/pull/1/../2",
    "",
  ];
  for (const stdout of others) {
    const error = await failure({ stdout: `${stdout}\n` }, (gh) => gh.createPullRequest(PULL));
    assertEquals(error.code, "push_rejected", stdout);
  }
});

// conformance: b2.ci.read_only b2.ci.poll_interval
Deno.test("a view has commit, state and checks from one read-only call", async () => {
  const rollup = [
    {
      __typename: "CheckRun",
      completedAt: "2026-01-01T10:05:00Z",
      conclusion: "FAILURE",
      detailsUrl: "https://github.com/acme/app/actions/runs/1/job/2",
      name: "test",
      startedAt: "2026-01-01T10:00:00Z",
      status: "COMPLETED",
      workflowName: "CI",
    },
    {
      __typename: "StatusContext",
      context: "deploy",
      startedAt: "2026-01-01T10:00:00Z",
      state: "PENDING",
      targetUrl: "",
    },
  ];
  const stdout = JSON.stringify({ headRefOid: OID, state: "OPEN", statusCheckRollup: rollup });
  await using bench = await GhBench.start({ stdout });
  const view = await bench.gh.viewPullRequest(REPO, 12);
  assertEquals([view.state, view.head_oid], ["open", OID]);
  assertEquals(view.checks.map(({ name, outcome }) => [name, outcome]), [["CI / test", "failed"], [
    "deploy",
    "pending",
  ]]);
  assertEquals(await bench.args(), [
    "pr",
    "view",
    "--repo=github.com/acme/app",
    "12",
    "--json=headRefOid,state,statusCheckRollup",
  ]);
});

Deno.test("no checks come as an empty list or as null", async () => {
  for (const statusCheckRollup of [[], null]) {
    await using bench = await GhBench.start({
      stdout: JSON.stringify({ headRefOid: OID, state: "MERGED", statusCheckRollup }),
    });
    assertEquals(await bench.gh.viewPullRequest(REPO, 12), { state: "merged", head_oid: OID, checks: [] });
  }
});

Deno.test("each way in which gh fails has its own error", async () => {
  const table: [string, string][] = [
    ['Unknown JSON field: "statusCheckRollup"\nAvailable fields:\n  additions\n', "unsupported_format"],
    ["unknown flag: --json\n", "unsupported_format"],
    ["To get started with GitHub CLI, please run:  gh auth login\n", "auth_failed"],
    ["HTTP 401: Bad credentials (https://api.github.com/graphql)\n", "auth_failed"],
    ["GraphQL: Resource not accessible by personal access token (createPullRequest)\n", "auth_failed"],
    ["error connecting to api.github.com\ncheck your internet connection\n", "unavailable"],
    ["HTTP 502: Server Error (https://api.github.com/graphql)\n", "unavailable"],
    ["API rate limit exceeded for user ID 1.\n", "unavailable"],
    [
      "HTTP 403: You have exceeded a secondary rate limit. Please wait (https://api.github.com/graphql)\n",
      "unavailable",
    ],
    ["HTTP 429: too many requests (https://api.github.com/graphql)\n", "unavailable"],
    ["HTTP 403: Resource not accessible (https://api.github.com/repos/acme/tls-timeout)\n", "auth_failed"],
    ['Post "https://api.github.com/graphql": dial tcp: lookup api.github.com: no such host\n', "unavailable"],
    ["HTTP 404: Not Found (https://api.github.com/repos/acme/authentication)\n", "not_found"],
    ["GraphQL: Could not resolve to a Repository with the name 'acme/tls-authentication'. (repository)\n", "not_found"],
    ["GraphQL: Could not resolve to a Repository with the name 'acme/app'. (repository)\n", "not_found"],
    ["pull request create failed: GraphQL: No commits between main and agent/t1\n", "push_rejected"],
    ["", "push_rejected"],
  ];
  for (const [stderr, code] of table) {
    const error = await failure({ stderr, code: 1 }, (gh) => gh.viewPullRequest(REPO, 12));
    assertEquals(error.code, code, stderr);
  }
});

Deno.test("an answer that is not gh's, too long, or has a secret in it does no harm", async () => {
  const view = (gh: Gh) => gh.viewPullRequest(REPO, 12);
  for (const stdout of ["<html>", "{}", '{"headRefOid":"x","state":"OPEN","statusCheckRollup":[]}', "null"]) {
    assertEquals((await failure({ stdout }, view)).code, "unsupported_format", stdout);
  }
  assertEquals((await failure({ stdout: "x".repeat(5 << 20) }, view)).code, "too_large");
  const error = await failure({ stderr: "bad token t0psecret \u001b[31m", code: 1 }, view);
  assert(!error.message.includes("t0psecret") && !error.message.includes("\u001b"), error.message);
});

Deno.test("a local repository has no pull requests, and a missing gh is reported", async () => {
  await using bench = await GhBench.start({});
  const local = { ...PULL, repo: parseRepo("/srv/app.git") };
  assertEquals((await assertRejects(() => bench.gh.createPullRequest(local), TaskdError)).code, "invalid_request");
  const none = new Gh({ path: "/nowhere/gh", cwd: bench.root, env: {} });
  assertEquals((await assertRejects(() => none.createPullRequest(PULL), TaskdError)).code, "not_found");
});
