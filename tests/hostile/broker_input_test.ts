/**
 * Wrong input of every kind against the real program: each gets one clear error that says what to do, and begins nothing.
 */

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { configure, EMBEDDED, makeBrokerPlace, startBroker } from "../cli/support/broker_place.ts";
import { plainGit } from "../broker/git/bench.ts";
import { longTest } from "../support/long.ts";

type BrokerPlace = Awaited<ReturnType<typeof makeBrokerPlace>>;

/** What must hold for every text of an error. */
function assertClear(text: string, about: string): void {
  // deno-lint-ignore no-control-regex
  assert(!/[\u0000-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/.test(text), `${about}: ${JSON.stringify(text)}`);
  assert(!/\bat .*\.ts:\d|TypeError|undefined|\[object|NaN /.test(text), `${about}: ${text}`);
  assert(text.length > 20 && text.length < 4_200, `${about}: ${text.length} characters`);
}

/** What keeps a broker from starting, and a word of the error. */
const STARTS: { what: string; config?: string; says: string; prepare?: (place: BrokerPlace) => Promise<unknown> }[] = [
  { what: "a negative amount", config: "task_budget_usd: -1\n", says: "task_budget_usd" },
  { what: "an amount that is no number", config: "global_budget_usd: .nan\n", says: "global_budget_usd" },
  { what: "an endless amount", config: "aggregate_budget_usd: .inf\n", says: "aggregate_budget_usd" },
  { what: "half a task", config: "max_concurrent_tasks: 1.5\n", says: "max_concurrent_tasks" },
  { what: "no task at all", config: "max_concurrent_tasks: 0\n", says: "max_concurrent_tasks" },
  { what: "a duration in words", config: "task_timeout: five minutes\n", says: "task_timeout" },
  { what: "a misspelled setting", config: "tusk_timeout: 1s\n", says: "task_timeout" },
  { what: "YAML that does not end", config: "diff_policy: [\n", says: "config.yaml" },
  { what: "a setting that stands twice", config: "task_timeout: 1s\ntask_timeout: 2s\n", says: "unique" },
  { what: "terminal escapes", config: '"\\e[2Jtask": 1\n', says: "config.yaml" },
  { what: "a runtime of another world", config: "runtime: vmware\n", says: "runtime" },
  { what: "a runtime that is not installed", config: "runtime: container\n", says: "container" },
  { what: "fewer starts than slots", config: "global_max_tasks: 1\n", says: "global_max_tasks" },
  { what: "retries without an end of the wait", config: "ci: { max_attempts: 1 }\n", says: "approval_timeout" },
  { what: "a glob with a trailing slash", config: "diff_policy: { blocked_paths: [a/] }\n", says: "a/**" },
  { what: "a profile of no repository", config: "profiles: { repos: { Acme: {} } }\n", says: "Acme" },
  { what: "an invalid address", config: "broker: { addr: nonsense }\n", says: "addr" },
  { what: "a relative socket", config: "broker: { socket: a.sock }\n", says: "socket" },
  { what: "an audit_root that is a file", config: "audit_root: /etc/hostname\n", says: "/etc/hostname" },
  { what: "a cache_root that is a file", config: "cache_root: /etc/hostname\n", says: "/etc/hostname" },
  {
    what: "keys that every user may read",
    says: "api-keys.env",
    prepare: async ({ home }) => {
      await Deno.writeTextFile(`${home}/.taskd/api-keys.env`, "VENDORA_API_KEY=sk-hostile-0123456789\n");
      await Deno.chmod(`${home}/.taskd/api-keys.env`, 0o644);
    },
  },
  {
    what: "a pipe as its settings",
    says: "config.yaml",
    prepare: async ({ home }) => {
      await Deno.remove(`${home}/.taskd/config.yaml`);
      await new Deno.Command("mkfifo", { args: [`${home}/.taskd/config.yaml`] }).output();
    },
  },
  {
    what: "no folder of its own",
    says: "taskd setup",
    prepare: ({ home }) => Deno.remove(`${home}/.taskd`, { recursive: true }),
  },
];

longTest(
  "attack: invalid settings give one error with a hint, and leave nothing behind",
  async (t) => {
    for (const { what, config, says, prepare } of STARTS) {
      await t.step(what, async () => {
        await using place = await makeBrokerPlace();
        // A key of the row stands in for the same one of the usual settings.
        const usual = config?.startsWith("runtime:") ? EMBEDDED.replace(/^runtime: .*\n/, "") : EMBEDDED;
        await configure(place, `${usual}${config ?? ""}`);
        await prepare?.(place);
        const { code, stdout } = await place.taskd("start", "--json");
        assert(code !== 0);
        const answer = JSON.parse(stdout);
        assertEquals(answer.ok, false);
        const whole = `${answer.error} ${answer.hint ?? ""}`;
        assertClear(whole, what);
        assertStringIncludes(whole, says);
        assert(!whole.includes("sk-hostile"), whole);
        assertEquals((await place.json(["stop"], 1)).code, "broker_unreachable");
      });
    }
  },
);

/** A request that nothing comes of. */
interface Row {
  what: string;
  method?: string;
  path?: string;
  /** Of `POST /tasks`, in addition to a repository and an instruction. */
  fields?: Record<string, unknown>;
  body?: string;
  headers?: Record<string, string>;
  /** Where the client believes that it is. */
  base?: string;
  status: number;
  /** A word of the error or of its hint. */
  says?: string;
}

const ID = "0".repeat(32);
const TASK = { repo: "https://git.example.com/acme/app", instruction: "x" };

const REQUESTS: Row[] = [
  ...[
    "nonsense",
    "ext::sh -c id% >&2",
    "--upload-pack=touch /tmp/x",
    "https://user:secret@git.example.com/acme/app",
    "https://git.example.com/acme/../../app",
    "git@-oProxyCommand=id:acme/app",
    "https://git.exa\u202emple.com/acme/app",
    "https://git.example.com/acme/app\u001b[2J",
    "https://git.example.com/acme/app\nHost: x",
    "http://git.example.com/acme/app",
    "ssh://git.example.com:0/acme/app",
    "../relative/path",
    "x".repeat(5_000),
  ].map((repo) => ({ what: `repo ${JSON.stringify(repo.slice(0, 60))}`, fields: { repo }, status: 400 })),
  { what: "no instruction", fields: { instruction: "" }, status: 400, says: "instruction" },
  { what: "an endless instruction", fields: { instruction: "x".repeat(100_001) }, status: 400, says: "instruction" },
  { what: "an unknown agent", fields: { agent: "agent_z" }, status: 400, says: "agent_d" },
  { what: "an agent that the runtime cannot run", fields: { agent: "agent_a" }, status: 400, says: "podman" },
  { what: "an option as a model", fields: { model: "--help" }, status: 400, says: "model" },
  { what: "an option as a base", fields: { base: "--exec=id" }, status: 400, says: "base" },
  { what: "this machine as egress", fields: { egress_extra: [{ host: "localhost", ports: [22] }] }, status: 400 },
  { what: "metadata as egress", fields: { egress_extra: [{ host: "169.254.169.254", ports: [80] }] }, status: 400 },
  { what: "port 0", fields: { egress_extra: [{ host: "a.example.com", ports: [0] }] }, status: 400, says: "ports" },
  { what: "a word for yes", fields: { sensitive: "yes" }, status: 400, says: "sensitive" },
  { what: "a misspelled field", fields: { instructions: "x" }, status: 400, says: "instruction" },
  { what: "a prototype", body: '{"repo":"https://a.example.com/a/b","instruction":"x","__proto__":{}}', status: 400 },
  { what: "a field that stands twice", body: '{"repo":"a","repo":"b","instruction":"x"}', status: 400 },
  { what: "NaN", body: '{"repo":NaN}', status: 400 },
  { what: "a list", body: "[]", status: 400 },
  { what: "nothing", body: "", status: 400, says: "JSON" },
  { what: "half a body", body: '{"repo":', status: 400 },
  { what: "1 MiB and a byte", body: `"${"x".repeat((1 << 20) - 1)}"`, status: 413 },
  { what: "a form", body: "repo=x", headers: { "content-type": "text/plain" }, status: 415, says: "application/json" },
  { what: "a packed body", body: "x", headers: { "content-encoding": "gzip" }, status: 415, says: "plain" },
  { what: "another host", base: "http://evil.example.com", status: 403, says: "host" },
  { what: "a page of elsewhere", headers: { origin: "https://evil.example.com" }, status: 403, says: "origin" },
  { what: "a method that is not offered", method: "DELETE", path: "/tasks", status: 405, says: "GET" },
  { what: "a path that is not there", method: "GET", path: "/tasks/x/y/z", status: 404 },
  { what: "a path out of the folder", method: "GET", path: "/tasks/..%2f..%2fetc%2fpasswd", status: 400 },
  { what: "an invalid id", method: "GET", path: "/tasks/zz", status: 400, says: "hex" },
  { what: "an id of nothing", method: "GET", path: `/tasks/${ID}`, status: 404, says: "taskd tasks" },
  { what: "a limit below zero", method: "GET", path: "/tasks?limit=-1", status: 400, says: "limit" },
  { what: "a limit beyond numbers", method: "GET", path: "/tasks?limit=1e99", status: 400, says: "limit" },
  { what: "an unknown stage", method: "GET", path: "/tasks?stage=over", status: 400, says: "awaiting_approval" },
  { what: "a misspelled parameter", method: "GET", path: "/tasks?limits=1", status: 400, says: "limit" },
  { what: "an invalid time", method: "GET", path: "/admin/stats?since=never", status: 400, says: "since" },
  { what: "a day that no month has", method: "GET", path: "/admin/stats?since=2026-02-31T99:00:00Z", status: 400 },
  {
    what: "an approval of nothing",
    path: `/admin/tasks/${ID}/approve`,
    body: JSON.stringify({ diff_sha256: "a".repeat(64) }),
    status: 404,
  },
  { what: "a prune of always", path: "/admin/prune", body: '{"before":"tomorrow"}', status: 400, says: "before" },
  { what: "a queue item of nothing", path: `/queue/${ID}/cancel`, body: "", status: 404 },
];

Deno.test("attack: an invalid request gets one problem document and starts nothing", async (t) => {
  await using place = await makeBrokerPlace();
  await configure(place, EMBEDDED);
  await using broker = await startBroker(place);
  using client = Deno.createHttpClient({ proxy: { transport: "unix", path: broker.hello.socket } });
  const ask = (path: string, init: RequestInit, base = "http://localhost") =>
    fetch(`${base}${path}`, { ...init, client });
  for (const { what, method = "POST", path = "/tasks", fields, body, headers, base, status, says } of REQUESTS) {
    await t.step(what, async () => {
      const sent = body ?? (method === "POST" ? JSON.stringify({ ...TASK, ...fields }) : undefined);
      const response = await ask(path, {
        method,
        headers: { ...(sent === undefined ? {} : { "content-type": "application/json" }), ...headers },
        ...(sent === undefined || sent === "" ? {} : { body: sent }),
      }, base);
      const text = await response.text();
      assertEquals(response.status, status, text);
      assertEquals(response.headers.get("content-type"), "application/problem+json");
      const problem = JSON.parse(text);
      assertEquals([problem.status, typeof problem.code], [status, "string"]);
      const whole = `${problem.detail} ${problem.hint ?? ""}`;
      assertClear(whole, what);
      assert(!whole.includes("secret"), whole);
      if (says !== undefined) assertStringIncludes(whole, says);
    });
  }
  const { tasks } = await (await ask("/tasks", {})).json();
  assertEquals(tasks, []);
  assertEquals((await (await ask("/healthz", {})).json()).ok, true);
});

longTest(
  "attack: a missing key and a dead endpoint are named, before and after a task has begun",
  async () => {
    await using place = await makeBrokerPlace();
    const repo = `${place.base}/app`;
    await Deno.mkdir(repo);
    await plainGit(repo, "init", "--quiet", "--initial-branch=main");
    await plainGit(
      repo,
      "-c",
      "user.name=a",
      "-c",
      "user.email=a@b.c",
      "commit",
      "--quiet",
      "--allow-empty",
      "-m",
      "x",
    );
    await configure(place, EMBEDDED.replace("  model:", "  api_key_env: HOSTILE_KEY\n  model:"));
    {
      await using _ = await startBroker(place);
      const refused = await place.json(["submit", repo, "x"], 1);
      assertEquals(refused.code, "auth_failed");
      assertStringIncludes(String(refused.error), "HOSTILE_KEY");
      assertStringIncludes(String(refused.hint), "taskd setup");
      await place.taskd("stop");
    }
    await configure(place, EMBEDDED);
    await using _ = await startBroker(place);
    const { stdout, stderr, code } = await place.taskd("submit", repo, "x");
    assert(code !== 0, stdout);
    assertStringIncludes(stderr, "agent_failed");
    assertStringIncludes(stderr, "the model's endpoint did not answer, or with errors alone; the output says which");
    await place.taskd("stop");
  },
);
