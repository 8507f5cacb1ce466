import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import type { Clock } from "../../lib/clock.ts";
import { plantTrace, someOrder } from "../../tests/broker/task/lives.ts";
import { configText, seedHome } from "../../broker/settings/seed.ts";
import { freeBytes } from "../../lib/fs.ts";
import { loadSettings } from "../../broker/settings/load.ts";
import { untrustedPlaces } from "../../broker/settings/own_places.ts";
import { policyView } from "../../broker/settings/explain.ts";
import { checkDisk } from "./_host_checks.ts";
import type { HostCheck } from "./check.ts";
import { type DoctorOptions, examine } from "./doctor.ts";
import { EMPTY_VIEW } from "../../broker/sandbox/bubblewrap/host_view.ts";
import { askProgram } from "../../broker/sandbox/host_programs.ts";

const NOW = Date.now();
const clock: Clock = { now: () => NOW, monotonic: () => 0, sleep: () => Promise.resolve() };

const PODMAN_INFO = JSON.stringify({
  host: { cgroupVersion: "v2", security: { rootless: true }, ociRuntime: { name: "crun" } },
  version: { Version: "5.4.0" },
});

/** What the programs of a healthy host answer. */
const PROGRAMS = {
  podman: `case "$1" in info) echo '${PODMAN_INFO}';; esac`,
  git: "echo git version 2.39.5",
  gh: "echo 'Logged in to code.example.com account me' >&2",
};

/** A host on which all is well, with real programs, files and sockets; each test spoils one thing. */
class Host {
  readonly variables = new Map<string, string>();
  options: DoctorOptions;

  constructor(readonly home: string) {
    const ask = askProgram({ env: () => undefined });
    this.variables.set("VENDORA_API_KEY", SECRET);
    this.options = {
      home,
      uid: Deno.uid()!,
      env: (name) => this.variables.get(name),
      ask,
      askGh: ask,
      places: {
        git: [`${home}/bin/git`],
        "notify-send": [],
        gh: [`${home}/bin/gh`],
        podman: [`${home}/bin/podman`],
        docker: [`${home}/bin/docker`],
        container: [],
        bubblewrap: [`${home}/bin/bubblewrap`],
        "systemd-run": [],
        prlimit: [`${home}/bin/prlimit`],
        kill: [],
        systemctl: [],
        launchctl: [],
      },
      deno: { path: Deno.execPath(), version: Deno.version.deno },
      untested: () => undefined,
      view: EMPTY_VIEW,
      findBroker: () => Promise.resolve({ state: "none" }),
      livePolicy: () => Promise.resolve(null),
      exchangeable_programs: [],
      untrusted: async () => {
        const settings = await loadSettings({ home, env: this.options.env }).then(({ settings }) => settings, () => {});
        return untrustedPlaces({ home, settings: settings ?? undefined });
      },
      storeDaemon: () => Promise.resolve(undefined),
      clock,
    };
  }

  config(text: string): void {
    Deno.writeTextFileSync(`${this.home}/.taskd/config.yaml`, text);
  }

  program(name: string, script: string | undefined): void {
    const path = `${this.home}/bin/${name}`;
    if (script === undefined) return Deno.removeSync(path);
    Deno.writeTextFileSync(path, `#!/bin/sh\n${script}\n`);
    Deno.chmodSync(path, 0o755);
  }

  async checks(): Promise<HostCheck[]> {
    return await examine(this.options);
  }
}

async function onHost(work: (host: Host) => Promise<void>): Promise<void> {
  const home = await Deno.makeTempDir();
  try {
    await seedHome(home);
    await Deno.mkdir(`${home}/bin`);
    const host = new Host(home);
    for (const [name, script] of Object.entries(PROGRAMS)) host.program(name, script);
    // An address of this machine's own, where no other broker is.
    host.config(`${configText().replace("#gateway_ip: 192.168.66.1", "gateway_ip: 127.77.66.1")}`);
    await work(host);
  } finally {
    await Deno.remove(home, { recursive: true });
  }
}

/** The lines of one check. */
function named(checks: readonly HostCheck[], name: string): HostCheck[] {
  return checks.filter((check) => check.name === name);
}

const SECRET = "sk-secret-of-a-test";

Deno.test("on a healthy host no check fails and none shows a secret", () =>
  onHost(async (host) => {
    const checks = await host.checks();
    assertEquals(checks.filter(({ status }) => status !== "ok"), [{
      name: "broker",
      status: "warn",
      detail: "not running",
      remedy: "Run taskd start",
    }]);
    assertEquals(["git", "gh"].flatMap((name) => named(checks, name)).map(({ detail }) => detail), [
      `2.39.5 at ${host.home}/bin/git, on the host, behind no wall`,
      `${host.home}/bin/gh, logged in to code.example.com`,
    ]);
    const names = new Set(checks.map(({ name }) => name));
    const all = ["home", "config", "egress", "clock", "credentials vendor_a", "runtime", "image", "network"];
    for (const name of [...all, "port 8088", "port 3128", "disk", "records", "git", "gh", "broker", "branch store"]) {
      assert(names.has(name), name);
    }
    assert(!JSON.stringify(checks).includes(SECRET));
  }));

/** What is spoiled, which check reports it, and how bad it is. */
const SPOILED: readonly {
  title: string;
  spoil: (host: Host) => void | Promise<void>;
  name: string;
  status: "warn" | "fail";
  says: RegExp;
}[] = [
  {
    title: "no home directory of the product",
    spoil: ({ home }) => Deno.removeSync(`${home}/.taskd`, { recursive: true }),
    name: "home",
    status: "fail",
    says: /does not exist.*taskd init/,
  },
  {
    title: "a disk that nothing is made on yet",
    spoil: ({ home }) => Deno.removeSync(`${home}/.taskd`, { recursive: true }),
    name: "disk",
    status: "warn",
    says: /^not known for stage_root, audit_root, squid_run_dir, cache_root: not made yet Run taskd init$/,
  },
  {
    title: "a home that others may change",
    spoil: ({ home }) => Deno.chmodSync(`${home}/.taskd`, 0o775),
    name: "home",
    status: "fail",
    says: /mode 0775.*chmod 755/,
  },
  {
    title: "settings that others may change",
    spoil: ({ home }) => Deno.chmodSync(`${home}/.taskd/config.yaml`, 0o666),
    name: "home",
    status: "fail",
    says: /config\.yaml.*chmod 644/,
  },
  {
    title: "keys that others may read",
    spoil: ({ home }) => Deno.writeTextFileSync(`${home}/.taskd/api-keys.env`, "VENDORA_API_KEY=x\n", { mode: 0o644 }),
    name: "keys",
    status: "fail",
    says: /other users can reach it.*chmod 600/,
  },
  {
    title: "a setting that does not exist",
    spoil: (host) => host.config("runtiem: podman\n"),
    name: "config",
    status: "fail",
    says: /runtiem/,
  },
  {
    title: "an invalid egress list",
    spoil: ({ home }) => Deno.writeTextFileSync(`${home}/.taskd/egress.yaml`, "allow: 7\n"),
    name: "config",
    status: "fail",
    says: /egress\.yaml:1/,
  },
  {
    title: "no key for the default agent",
    spoil: (host) => void host.variables.clear(),
    name: "credentials vendor_a",
    status: "fail",
    says: /no key.*--key vendor_a=-/,
  },
  {
    title: "a key with a line break in it",
    spoil: (host) => void host.variables.set("VENDORA_API_KEY", "sk-a\nx-evil: 1"),
    name: "credentials vendor_a",
    status: "fail",
    says: /characters that no key has/,
  },
  {
    title: "a subscription without its file",
    spoil: (host) => void host.variables.set("TASKD_VENDOR_A_AUTH", "subscription"),
    name: "credentials vendor_a",
    status: "fail",
    says: /no such file/,
  },
  {
    title: "a subscription that has expired for good",
    spoil: (host) => subscription(host, -1),
    name: "credentials vendor_a",
    status: "fail",
    says: /expired and cannot be renewed/,
  },
  {
    title: "a subscription that is about to expire",
    spoil: (host) => subscription(host, 3_600_000),
    name: "credentials vendor_a",
    status: "warn",
    says: /expires at/,
  },
  {
    title: "agent_d as the default without an endpoint",
    spoil: (host) => host.config("default_agent: agent_d\n"),
    name: "credentials compat",
    status: "fail",
    says: /base_url is empty/,
  },
  {
    title: "an endpoint whose key is missing",
    spoil: (host) =>
      host.config(
        "default_agent: agent_d\ncompat:\n  base_url: http://localhost:1\n  model: m\n  api_key_env: MY_KEY\n",
      ),
    name: "credentials compat",
    status: "fail",
    says: /there is no MY_KEY/,
  },
  {
    title: "an endpoint where nothing listens",
    spoil: (host) => host.config("default_agent: agent_d\ncompat:\n  base_url: http://127.0.0.1:1\n  model: m\n"),
    name: "endpoint",
    status: "warn",
    says: /^nothing answers at http:\/\/127\.0\.0\.1:1: /,
  },
  {
    title: "a runtime that is configured and not installed",
    spoil: (host) => host.config("runtime: docker\n"),
    name: "runtime",
    status: "fail",
    says: /runtime is docker, and there is no such program/,
  },
  {
    title: "a runtime that does not work",
    spoil(host) {
      host.config("runtime: podman\n");
      host.program("podman", "echo 'cannot set up namespace' >&2; exit 125");
    },
    name: "runtime",
    status: "fail",
    says: /podman does not work: cannot set up namespace/,
  },
  {
    title: "no runtime but the embedded one for an agent that is a program",
    spoil: (host) => host.program("podman", undefined),
    name: "agent",
    status: "fail",
    says: /runs agent_d alone/,
  },
  {
    title: "a runtime of an untested version",
    spoil: (host) => void (host.options = { ...host.options, untested: () => "podman 9.0.0, tested are 4 and 5" }),
    name: "runtime version",
    status: "warn",
    says: /9\.0\.0/,
  },
  {
    title: "a runtime of an untested version where that is not allowed",
    spoil(host) {
      host.variables.set("TASKD_STRICT_CONTAINER_VERSION", "1");
      host.options = { ...host.options, untested: () => "podman 9.0.0, tested are 4 and 5" };
    },
    name: "runtime version",
    status: "fail",
    says: /strict_container_version/,
  },
  {
    title: "limits too low for a sandbox",
    spoil: (host) => host.program("prlimit", "echo NOFILE 256; echo NPROC 64"),
    name: "limits",
    status: "warn",
    says: /256 open files and 64 processes/,
  },
  {
    title: "an image that was never built",
    spoil: (host) => host.program("podman", `case "$1" in info) echo '${PODMAN_INFO}';; image) exit 1;; esac`),
    name: "image",
    status: "fail",
    says: /is missing.*taskd setup/,
  },
  {
    title: "an old git",
    spoil: (host) => host.program("git", "echo git version 2.20.1"),
    name: "git",
    status: "fail",
    says: /2\.20\.1.*too old/,
  },
  {
    title: "no git",
    spoil: (host) => host.program("git", undefined),
    name: "git",
    status: "fail",
    says: /not found/,
  },
  {
    title: "no gh",
    spoil: (host) => host.program("gh", undefined),
    name: "gh",
    status: "warn",
    says: /no pull request is opened/,
  },
  {
    title: "a gh without a login",
    spoil: (host) => host.program("gh", "exit 1"),
    name: "gh",
    status: "warn",
    says: /not logged in.*gh auth login/,
  },
  {
    title: "a clock of years ago",
    spoil: (host) => void (host.options = { ...host.options, clock: { ...clock, now: () => 0 } }),
    name: "clock",
    status: "fail",
    says: /1970-01-01/,
  },
  {
    title: "a clock that was set back",
    spoil: (host) => void (host.options = { ...host.options, clock: { ...clock, now: () => NOW - 3_600_000 } }),
    name: "clock",
    status: "warn",
    says: /in the future/,
  },
  {
    title: "a broker that does not answer",
    spoil: (host) =>
      void (host.options = {
        ...host.options,
        findBroker: () => Promise.resolve({ state: "silent", pid: 7, socket: "/s" }),
      }),
    name: "broker",
    status: "fail",
    says: /process 7 runs and does not answer on \/s/,
  },
];

for (const { title, spoil, name, status, says } of SPOILED) {
  Deno.test(`the doctor reports ${title}, and what to do`, () =>
    onHost(async (host) => {
      await spoil(host);
      const found = named(await host.checks(), name).filter((check) => check.status === status);
      assert(found.length > 0, `no ${status} of ${name} in ${JSON.stringify(await host.checks())}`);
      assert(found.some(({ detail, remedy }) => says.test(`${detail} ${remedy}`)), JSON.stringify(found));
      assert(found.every(({ remedy }) => remedy !== undefined));
    }));
}

function subscription(host: Host, left_ms: number): void {
  host.variables.set("TASKD_VENDOR_A_AUTH", "subscription");
  const expires_at = new Date(NOW + left_ms).toISOString();
  const text = JSON.stringify({ access_token: "token-of-a-test", expires_at });
  Deno.writeTextFileSync(`${host.home}/.taskd/vendor_a-oauth.json`, text, { mode: 0o600 });
}

Deno.test("doctor reports a gateway port that another program has", () =>
  onHost(async (host) => {
    using _other = Deno.listen({ hostname: "127.77.66.1", port: 8088 });
    const [check] = named(await host.checks(), "port 8088");
    assertEquals([check?.status, check?.detail], ["fail", "another program listens at 127.77.66.1"]);
  }));

Deno.test("doctor accepts the running broker's ports, and reports those that do not answer", () =>
  onHost(async (host) => {
    const health = { pid: 7, version: "1", runtime: "podman", started_at: "", running: 0, pending: 0 };
    host.options = {
      ...host.options,
      findBroker: () => Promise.resolve({ state: "serving", pid: 7, socket: "/s", health }),
    };
    using _gateway = Deno.listen({ hostname: "127.77.66.1", port: 8088 });
    const checks = await host.checks();
    assertEquals(named(checks, "port 8088")[0]?.status, "ok");
    assertEquals(named(checks, "port 3128")[0]?.status, "fail");
  }));

Deno.test("doctor reports whether the running broker has the current configuration", () =>
  onHost(async (host) => {
    const { home, variables } = host;
    const health = { pid: 7, version: "1", runtime: "podman", started_at: "", running: 0, pending: 0 };
    const live = policyView(await loadSettings({ home, env: (name) => variables.get(name) }));
    host.options = {
      ...host.options,
      findBroker: () => Promise.resolve({ state: "serving", pid: 7, socket: "/s", health }),
      livePolicy: () => Promise.resolve(live),
    };
    assertEquals(named(await host.checks(), "in sync")[0]?.status, "ok");
    variables.set("TASKD_TASK_BUDGET_USD", "9");
    const [check] = named(await host.checks(), "in sync");
    assertEquals([check?.status, check?.detail.includes("task_budget_usd")], ["warn", true]);
  }));

Deno.test("doctor fails for each session that the branch store could not go on with, and says why", () =>
  onHost(async (host) => {
    const info = { pid: 7, host: "", socket: "/s", started_at: "" };
    const error = { code: "no_space", message: "Cannot flush: the disk is full" };
    const sessions = [
      { db: "shop", branch: "main", state: "active" },
      { db: "shop", branch: "try", state: "error", error },
    ] as const;
    host.options = { ...host.options, storeDaemon: () => Promise.resolve({ info, sessions }) };
    const checks = await host.checks();
    assertEquals(named(checks, "branch store")[0]?.status, "ok");
    assertEquals(named(checks, "session"), [{
      name: "session",
      status: "fail",
      detail: "shop@try has failed, and what is committed is in its file alone: Cannot flush: the disk is full",
      remedy: "Mend that, then capture it again with: taskd session open shop@try",
    }]);
  }));

Deno.test("doctor warns of a disk that is nearly full and fails for a full one", () =>
  onHost(async ({ home }) => {
    const { settings } = await loadSettings({ home, env: () => undefined });
    await Deno.mkdir(settings.stage_root, { recursive: true });
    const status = async (free: number) => (await checkDisk(settings, home, () => Promise.resolve(free)))[0]?.status;
    assertEquals([await status(1 << 20), await status(2 ** 30), await status(2 ** 40)], ["fail", "warn", "ok"]);
    assert(await freeBytes(settings.stage_root) > 0);
  }));

Deno.test("a damaged trace and a damaged item of the queue are named, and all else is counted", () =>
  onHost(async (host) => {
    const [audit, queue] = [`${host.home}/.taskd/audit`, `${host.home}/.taskd/queue`];
    await Deno.mkdir(audit);
    await Deno.mkdir(queue);
    const ids = ["ab", "cd"].map((pair) => pair.repeat(16));
    for (const id of ids) plantTrace(audit, [{ type: "created", task: someOrder(id) }]);
    assertEquals(named(await host.checks(), "records").map(({ detail }) => detail), ["2 traces, 0 items of the queue"]);
    const [trace, item] = [`${audit}/${ids[0]}.jsonl`, `${queue}/${ids[1]}.json`];
    await Deno.writeTextFile(trace, (await Deno.readTextFile(trace)).replace("Fix the test", "Fix the tent"));
    await Deno.writeTextFile(item, "{}");
    assertEquals(named(await host.checks(), "records").map(({ status, detail }) => [status, detail]), [
      ["fail", `${trace}: row 1 is altered`],
      ["fail", `${item} is damaged: its task does not begin`],
    ]);
  }));

Deno.test("a bubblewrap that does not work is named where the built-in agent's commands need it", () =>
  onHost(async (host) => {
    host.config(configText().replace(/^#?\s*runtime: .*/m, "runtime: deno"));
    assertEquals(named(await host.checks(), "runtime").map(({ status }) => status), ["ok"]);
    host.program("bubblewrap", "exit 1");
    const [chosen, refused] = named(await host.checks(), "runtime");
    assertStringIncludes(chosen!.detail, "and no programs");
    assertEquals(refused?.status, "warn");
    assertStringIncludes(refused!.detail, "bubblewrap does not work");
    assertStringIncludes(refused!.detail, "the built-in agent runs no commands");
  }));
