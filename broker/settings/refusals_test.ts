import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { parseRepo } from "../git/repo_url.ts";
import { EGRESS, load, refusal } from "../../tests/broker/settings/harness.ts";
import { MAX_SOCKET_PATH_BYTES } from "../../lib/socket_path.ts";

Deno.test("a refusal names file, line, column, setting, value and rule", async () => {
  const error = await refusal({ config: "# mine\nci:\n  max_attempts: lots\n" });
  assertEquals([error.code, error.setting, error.rule], [
    "invalid_config",
    "ci.max_attempts",
    "must be a whole number, 0 or more",
  ]);
  assertEquals(error.place, { file: "/home/ada/.taskd/config.yaml", line: 3, column: 17 });
  assertStringIncludes(
    error.message,
    'Cannot use /home/ada/.taskd/config.yaml:3:17: ci.max_attempts is "lots", and must be',
  );
  const exported = await refusal({ env: { TASKD_MAX_CONCURRENT_TASKS: "two" } });
  assertEquals(
    exported.message,
    'Cannot use the environment variable TASKD_MAX_CONCURRENT_TASKS: max_concurrent_tasks is "two", and must be a ' +
      "whole number from 1 to 1000",
  );
});

// conformance: b1.keys_not_configured b1.agent_c_key_only b2.compat.api_key_env
Deno.test("an unknown key is refused with the most likely name", async () => {
  const table: [string, string, string][] = [
    ["max_concurent_tasks: 3", '"max_concurent_tasks"', "Did you mean max_concurrent_tasks?"],
    ["ci: { wach: true }", '"wach" in ci', "Did you mean watch? Known here: watch, poll_interval"],
    ["CI: { watch: true }", '"CI"', "Did you mean ci?"],
    ["diff_policy: { blocked_path: [] }", '"blocked_path"', "Did you mean blocked_paths?"],
    [
      "profiles: { repos: { a.example/b/c: { set_up: [] } } }",
      "in profiles.repos.a.example/b/c",
      "Did you mean setup?",
    ],
    ["zebra: 1", '"zebra"', "taskd init"],
    ["ci.watch: true", '"ci.watch"', "taskd init"],
    ["vendor_c_auth: subscription", '"vendor_c_auth"', "agent_c has no subscription mode"],
    ["VENDORA_API_KEY: sk-secret", '"VENDORA_API_KEY"', "api-keys.env"],
    ["compat: { api_key: sk-secret }", '"api_key"', "api-keys.env"],
    ['"\\e[2J": 1', '"\\u001b[2J"', "taskd init"],
  ];
  for (const [config, message, hint] of table) {
    const error = await refusal({ config });
    assertStringIncludes(error.message, message);
    assertStringIncludes(error.hint ?? "", hint);
    assert(!`${error.message}${error.hint}${error.stack}`.includes("sk-secret"), config);
  }
});

// conformance: b7.global_max_tasks b7.max_attempts b7.watch_timeout b2.ci.watch_timeout b2.ci.max_attempts
Deno.test("every pair that the contract forbids is refused, whichever setting is configured", async () => {
  const table: [Parameters<typeof refusal>[0], string, string][] = [
    [{ config: "global_max_tasks: 1" }, "config.yaml:1:19: global_max_tasks is 1", "at least max_concurrent_tasks"],
    [
      { config: "max_concurrent_tasks: 8", env: { TASKD_GLOBAL_MAX_TASKS: "7" } },
      "variable TASKD_GLOBAL_MAX_TASKS",
      "which is 8",
    ],
    [
      { config: "global_max_tasks: 4", env: { TASKD_MAX_CONCURRENT_TASKS: "5" } },
      "config.yaml:1:19: global_max_tasks is 4",
      "which is 5",
    ],
    [{ config: "ci: { max_attempts: 1 }" }, "config.yaml:1:21: ci.max_attempts is 1", "approval_timeout is 0"],
    [{ env: { TASKD_CI_MAX_ATTEMPTS: "1" } }, "variable TASKD_CI_MAX_ATTEMPTS", "approval_timeout is 0"],
    [{ config: "ci: { watch_timeout: 5m }" }, "ci.watch_timeout is 5m", "longer than 5m"],
    [{ config: "ci: { watch_timeout: 299s }" }, "ci.watch_timeout is 4m59s", "longer than 5m"],
    [{ config: "ci: { poll_interval: 10m, watch_timeout: 20m }" }, "ci.watch_timeout is 20m", "longer than 20m"],
    [{ config: "ci: { poll_interval: 45m }" }, "config.yaml:1:22: ci.watch_timeout is 1h30m", "longer than 1h30m"],
  ];
  for (const [given, where, rule] of table) {
    const { message } = await refusal(given);
    assertStringIncludes(message, where);
    assertStringIncludes(message, rule);
  }
});

// conformance: b7.global_max_tasks b7.max_attempts b7.watch_timeout
Deno.test("api_addr is on the loopback unless it is allowed elsewhere; each listener has its port", async () => {
  for (const addr of ["0.0.0.0:1", "10.0.0.1:1", "'[::]:1'", "host.example:1"]) {
    assertEquals((await refusal({ config: `broker: { api_addr: ${addr} }` })).setting, "broker.api_addr", addr);
    await load({ config: `broker: { api_addr: ${addr}, api_allow_non_loopback: true }` });
  }
  const pairs = [["api_addr", "addr"], ["metrics_addr", "addr"], ["metrics_addr", "api_addr"]];
  for (const [one, other] of pairs) {
    const config = (port: number) => `broker: { ${one}: 127.0.0.1:7, ${other}: localhost:${port} }`;
    assertEquals((await refusal({ config: config(7) })).setting, `broker.${one}`);
    await load({ config: config(8) });
  }
  await load({ config: "broker: { addr: 127.0.0.1:0, api_addr: 127.0.0.1:0, metrics_addr: 127.0.0.1:0 }" });
});

Deno.test("a pair of settings at its limit is allowed", async () => {
  for (
    const config of [
      "global_max_tasks: 2",
      "global_max_tasks: 0\nmax_concurrent_tasks: 500",
      "approval_timeout: 1ms\nci: { max_attempts: 10 }",
      "ci: { watch_timeout: 5m1ms }",
      "ci: { poll_interval: 10s, watch_timeout: 301s }",
      "ci: { poll_interval: 10m, watch_timeout: 20m1s }",
    ]
  ) await load({ config });
});

Deno.test("a value that breaks its rule is refused", async () => {
  const refused: Record<string, readonly string[]> = {
    vendor_a_auth: ["oauth", "API_KEY", "1", "[]", "{}", "true"],
    default_agent: ["agent_e", "vendor_a", "''"],
    default_model: ["-m", "'a b'", "1", '"a\\nb"', '"\\0"'],
    task_budget_usd: ["-1", "-0.01", ".inf", ".nan", "1e99", "'2'", "$2", "1,5", "1_000", "true"],
    task_max_inflight: ["-1", "1.5", "1e10", "one"],
    task_max_requests: ["-1", "0.5"],
    max_concurrent_tasks: ["0", "-1", "1001", "1.5"],
    aggregate_window: ["30", "-1h", "1.5h", "24", "1 h", "forever", "4000d", "24:00", "true"],
    task_timeout: ["999ms", "25d", "30"],
    approval_timeout: ["3651d", "-5m", "5"],
    push_max_retries: ["11", "-1"],
    push_retry_backoff: ["11m", "1"],
    notifications: ["yes", "no", "1", "0", "on", "'true'"],
    network: ["''", "-x", "'a b'", "a/b"],
    gateway_ip: ["0.0.0.0", "'::'", "192.168.66", "192.168.66.1/24", "localhost", "3232252417", "224.0.0.1", "''"],
    sandbox_image: ["''", "-v", "'a b'", '"a;b"'],
    stage_root: ["stage", "./stage", "~ada/x", "/a/../b", "'~'", "''", '"/a\\0"'],
    cache_quota_gb: ["-1", "20GB", ".nan"],
    runtime: ["Podman", "runc", "''"],
    oci_runtime: ["--privileged", "'a b'"],
    allow_vendor_tools: ["web_search", "['']", "[1]", "['a b']", "[[a]]"],
  };
  for (const [path, texts] of Object.entries(refused)) {
    for (const text of texts) {
      const error = await refusal({ config: `${path}: ${text}` });
      assert(error.setting === path || error.setting.startsWith(`${path}[`), `${path}: ${text}: ${error.message}`);
    }
  }
});

// conformance: b7.poll_interval b7.trailing_slash b2.ci.poll_interval b2.diff_policy.globs
Deno.test("a value of a group that breaks its rule is refused", async () => {
  const refused: Record<string, readonly string[]> = {
    "broker.socket": ["taskd.sock", `/${"x".repeat(MAX_SOCKET_PATH_BYTES)}`, `/${"é".repeat(52)}`],
    "broker.addr": [":8080", "'8080'", "localhost", "127.0.0.1:99999", "'::1:80'", "'[::1]'", "'[::1:80'", "a b:80"],
    "upstreams.vendor_a": ["http://api.example.com", "''", "ftp://x", "api.example.com", "https://h/?key=1"],
    "compat.base_url": [
      "http://example.com",
      "http://localhost.example.com",
      "http://127.0.0.2",
      "https://example.com/v1",
      "ftp://localhost",
      "localhost:11434",
      "https://example.com?x=1",
      "https://example.com#x",
      "'https://'",
    ],
    "compat.base_path": ["v1", "/v1?x", "/../v1", "/./x", "/%2e%2e", "//x", "/a b"],
    "compat.api_key_env": ["my-key", "lower_case", "1ABC", "A=B"],
    "compat.prices": ["[]", "{ m: 1 }", "{ m: { input: 1 } }", "{ m: { input: -1, output: 1 } }", "{ 'a b': {} }"],
    "diff_policy.max_files_changed": ["-1", "1.5"],
    "diff_policy.blocked_paths": [
      "dir/**",
      "['dir/']",
      "['dir/**/']",
      "['/']",
      "['']",
      "[' a']",
      "['/abs']",
      "['./rel']",
      "['a/../b']",
      "['..']",
      "['a//b']",
      "['!secret']",
      "['[a']",
      "['a**b**c**d**e**f']",
      "[1]",
      "[[a]]",
      '["a\\0b"]',
    ],
    "diff_policy.second_look_paths": ["['migrations/']"],
    "ci.poll_interval": ["9s", "9999ms", "1ms", "-1s"],
    "ci.watch": ["1", "yes"],
    "ci.max_attempts": ["-1", "1.5"],
  };
  for (const [path, texts] of Object.entries(refused)) {
    const [group, name] = path.split(".");
    for (const text of texts) {
      const error = await refusal({ config: `${group}: { ${name}: ${text} }` });
      assert(error.setting.startsWith(path), `${path}: ${text}: ${error.message}`);
    }
  }
});

// conformance: b2.compat.base_url
Deno.test("an endpoint may be https anywhere, and http on localhost alone", async () => {
  for (
    const [text, origin] of [
      ["https://example.com", "https://example.com"],
      ["https://EXAMPLE.com:8443/", "https://example.com:8443"],
      ["http://localhost:1234", "http://localhost:1234"],
      ["http://127.0.0.1:1", "http://127.0.0.1:1"],
      ["'http://[::1]:1'", "http://[::1]:1"],
    ] as const
  ) {
    assertEquals((await load({ config: `compat: { base_url: ${text} }` })).settings.compat.base_url, origin);
  }
});

// conformance: b2.profiles.key b7.profile_key
Deno.test("a profile's key that is not canonical is refused with the canonical form", async () => {
  const table: [string, string | undefined][] = [
    ["https://GitHub.com/Owner/repo.git", "github.com/Owner/repo"],
    ["git@git.example.com:owner/repo.git", "git.example.com/owner/repo"],
    ["ssh://git@git.example.com:22/owner/repo", "git.example.com/owner/repo"],
    ["GIT.example.com/owner/repo", "git.example.com/owner/repo"],
    ["git.example.com/owner/repo/", "git.example.com/owner/repo"],
    ["git.example.com/owner/repo.git", "git.example.com/owner/repo"],
    ["git.example.com:443/owner/repo", "git.example.com/owner/repo"],
    ["GIT.example.com:8443/owner/repo", "git.example.com:8443/owner/repo"],
    ["owner/repo", undefined],
    ["git.example.com/owner", undefined],
    ["git.example.com/../repo", undefined],
    ["git.example.com/owner/..", undefined],
    ["git.example.com./owner/repo", undefined],
    ["git.example.com/owner/repo?x", undefined],
    ["git.example.com/-o/repo", undefined],
    ["/srv/git/repo.git", "file:///srv/git/repo.git"],
    ["https://git.example.com:443/owner/repo", "git.example.com/owner/repo"],
    ["ext::sh -c x", undefined],
    ["", undefined],
  ];
  for (const [key, meant] of table) {
    const error = await refusal({ config: `profiles:\n  repos:\n    ${JSON.stringify(key)}: {}\n` });
    assertEquals(error.place, { file: "/home/ada/.taskd/config.yaml", line: 3, column: 5 }, key);
    if (meant !== undefined) assertEquals(error.hint, `Write ${meant}`);
  }
});

Deno.test("a profile's key is the canonical form of every spelling of a repository", async () => {
  for (
    const spelling of [
      "git@git.example.com:Owner/repo.git",
      "https://git.example.com:8443/group/sub/repo",
      "ssh://git@git.example.com:2222/owner/.github",
      "http://127.0.0.1:3000/owner/repo",
      "/srv/git/repo.git",
    ]
  ) {
    const key = parseRepo(spelling).canonical;
    const { settings } = await load({ config: `profiles: { repos: { ${JSON.stringify(key)}: { cache: true } } }` });
    assertEquals(settings.profiles.repos[key]?.cache, true, key);
  }
});

// conformance: b2.profiles.setup
Deno.test("a profile's command that is not a list of arguments is refused", async () => {
  for (
    const text of ["npm ci", "[npm ci]", "[[]]", "[['']]", "[[npm, 5]]", "[[npm, true]]", "[[[npm]]]", '[["a\\0"]]']
  ) {
    const error = await refusal({ config: `profiles: { repos: { a.example/b/c: { setup: ${text} } } }` });
    assertStringIncludes(error.setting, "profiles.repos.a.example/b/c.setup");
  }
});

Deno.test("YAML with aliases, tags, duplicate keys or too much of anything is refused", async () => {
  for (
    const config of [
      "task_budget_usd: &b 2\nmax_request_cost_usd: *b",
      "default_model: !!str 2",
      "default_model: !custom x",
      "task_budget_usd: 1\ntask_budget_usd: 2",
      "ci: { watch: true, watch: false }",
      "<<: { task_budget_usd: 1 }",
      "a: 1\n---\nb: 2",
      "- a",
      "just text",
      "? [a]\n: 1",
      "1: 2",
      "ci: [",
      "\tci: 1",
      "ci: {watch: true",
      "[".repeat(5_000),
      "{a: ".repeat(5_000),
      "- ".repeat(5_000),
      `profiles: { repos: ${"{a.b/c/d: ".repeat(200)}${"}".repeat(200)} }`,
      `allow_vendor_tools: [${"a, ".repeat(30_000)}]`,
      `# ${"x".repeat(1_100_000)}`,
    ]
  ) {
    const { message } = await refusal({ config });
    assert(message.length < 500, message.slice(0, 600));
  }
});

Deno.test("a refusal never shows a value that may be a secret", async () => {
  const secret = "sk-ant-0123456789";
  for (
    const config of [
      `compat: { api_key_env: ${secret} }`,
      `compat: { base_url: "https://me:${secret}@example.com" }`,
      `compat: { base_url: "https://example.com?key=${secret}" }`,
      `compat: { base_url: "http://${secret}@example" }`,
      `upstreams: { vendor_a: "https://${secret}@example.com" }`,
      `profiles: { repos: { "https://${secret}@git.example.com/o/r": {} } }`,
      `api_key: ${secret}`,
      `x: "${secret}`,
      `x: 'y' ${secret}`,
      `x: *${secret}`,
      `x: !${secret} 1`,
      `@${secret}`,
    ]
  ) {
    const error = await refusal({ config });
    assert(!`${error.message} ${error.hint} ${error.stack}`.includes(secret), error.message);
  }
});

Deno.test("a refusal shows a value without its terminal escapes", async () => {
  const { message } = await refusal({ config: 'default_agent: "\\e]0;owned\\a\\u202e"' });
  // deno-lint-ignore no-control-regex
  assert(!/[\u0000-\u001f\u202e]/.test(message), JSON.stringify(message));
});

// conformance: b2.egress_config
Deno.test("an egress list that EGRESS_CONFIG names must exist; the default one may be missing", async () => {
  const error = await refusal({ env: { EGRESS_CONFIG: "/nowhere.yaml" } });
  assertStringIncludes(error.message, "EGRESS_CONFIG");
  assertEquals((await load({ env: { EGRESS_CONFIG: EGRESS }, egress: "allow: [{ host: a.example }]" })).egress, {
    entries: [{ host: "a.example", ports: [443] }],
  });
  assertStringIncludes((await refusal({ env: { EGRESS_CONFIG: "egress.yaml" } })).message, "must be an absolute path");
});
