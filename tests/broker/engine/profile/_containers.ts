/**
 * A real container runtime with its network, the egress proxy in front of a registry, git and a dependency cache: all
 * that a setup phase has in a running broker.
 */

import { DependencyCache } from "../../../../broker/cache/dependency_cache.ts";
import { removeTree } from "../../../../lib/remove_tree.ts";
import { PROXY_PORT } from "../../../../broker/egress/ports.ts";
import { EgressProxy } from "../../../../broker/egress/proxy.ts";
import { Git } from "../../../../broker/git/git.ts";
import type { SetupResult } from "../../../../broker/engine/engine_deps.ts";
import { setupRunner } from "../../../../broker/engine/setup.ts";
import { parseRepo } from "../../../../broker/git/repo_url.ts";
import type { Profile } from "../../../../broker/settings/settings.ts";
import { randomHex, systemClock, systemRandom } from "../../../../lib/clock.ts";
import { testRuntime } from "../../../support/podman.ts";
import { type Registry, REGISTRY_HOST, startRegistry } from "./_registries.ts";

/** One broker's worth of it. */
export interface ContainerWorld extends AsyncDisposable {
  registry: Registry;
  cache: DependencyCache;
  gateway_ip: string;
  /** Runs a setup phase for a fresh work tree with these files, and npm below `.npm`. */
  setUp(files: Record<string, string | Uint8Array>, profile: Partial<Profile>): Promise<SetUp>;
  /** Runs one command as the agent would be, after a setup phase. */
  agent(after: SetUp, command: string[]): Promise<{ code: number; output: string }>;
}

/** A setup phase that has ended. */
export interface SetUp {
  result: SetupResult;
  work_dir: string;
  log: string;
}

/** Starts everything. */
export async function startContainers(): Promise<ContainerWorld> {
  await using stack = new AsyncDisposableStack();
  const root = await Deno.makeTempDir({ prefix: "taskd-setup-phase-" });
  stack.defer(() => removeTree(root));
  for (const name of ["audit", "home"]) await Deno.mkdir(`${root}/${name}`, { mode: 0o700 });
  const registry = stack.use(await startRegistry());
  const { runtime, network, gateway_ip, image } = stack.use(await testRuntime());
  await runtime.prepare();
  const proxy = EgressProxy.listen({ hostname: gateway_ip, port: PROXY_PORT }, {
    clock: systemClock,
    random: systemRandom,
    egress: { entries: [{ host: REGISTRY_HOST, ports: [80] }] },
    log_dir: `${root}/squid`,
    allow_addresses: ["127.0.0.1"],
    resolve: () => Promise.resolve(["127.0.0.1"]),
    connect: (hostname, _port, signal) => Deno.connect({ hostname, port: registry.port, transport: "tcp", signal }),
  });
  stack.defer(() => proxy.close());
  const cache = await DependencyCache.open({ cache_root: `${root}/cache`, quota_bytes: 2 ** 30, clock: systemClock });
  stack.defer(() => cache.close());
  const git = new Git({ home: `${root}/home` });
  const settings = { sandbox_image: image, network };
  const runtime_version = await runtime.version();
  const setUpTask = setupRunner({ settings, runtime, runtime_version, cache, git, clock: systemClock });
  const owned = stack.move();
  const proxy_of = (task_id: string) => proxy.admit({ task_id, extra: { entries: [] } });
  return {
    registry,
    cache,
    gateway_ip,
    async setUp(files, profile) {
      const task_id = randomHex(systemRandom, 16);
      const work_dir = `${root}/stage/${task_id}/work`;
      const { git_dir, base_commit } = await commit(work_dir, files);
      await copyNpm(`${work_dir}/.npm`);
      const egress = proxy_of(task_id);
      const log_path = `${root}/audit/${task_id}.setup.log`;
      const result = await setUpTask({
        order: { id: task_id, repo: "https://git.example.com/owner/repo", instruction: "Build it", agent: "agent_a" },
        repo: parseRepo("https://git.example.com/owner/repo"),
        profile: {
          setup: [],
          readiness: [],
          timeout: 120_000,
          cache: true,
          second_look_paths: [],
          checks: [],
          ...profile,
        },
        work_dir,
        git_dir,
        base_commit,
        proxy_url: egress.url,
        log_path,
        signal: new AbortController().signal,
        onLine: () => {},
        onFolder: () => {},
      });
      egress.end();
      return { result, work_dir, log: await Deno.readTextFile(log_path) };
    },
    async agent({ result, work_dir }, command) {
      const lines: string[] = [];
      const sandbox = await runtime.start({
        task_id: randomHex(systemRandom, 16),
        work_dir,
        workload: {
          kind: "command",
          image,
          command,
          env: result.env,
          mounts: result.mounts,
          network,
          max_pids: 100,
        },
        memory_bytes: 1 << 29,
        timeout_ms: 60_000,
        max_output_bytes: 1 << 16,
        onOutput: ({ text }) => lines.push(text),
      });
      const { code } = await sandbox.wait();
      return { code, output: lines.join("\n") };
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** A work tree without `.git`, and the git directory with its one commit. */
async function commit(work_dir: string, files: Record<string, string | Uint8Array>) {
  const git_dir = `${work_dir.replace(/\/work$/, "")}/git`;
  await Deno.mkdir(work_dir, { recursive: true });
  for (const [name, text] of Object.entries(files)) {
    await Deno.writeFile(`${work_dir}/${name}`, typeof text === "string" ? new TextEncoder().encode(text) : text);
  }
  const git = async (...args: string[]) => {
    const { success, stdout, stderr } = await new Deno.Command("git", {
      args: ["-c", "user.name=t", "-c", "user.email=t@example.com", `--git-dir=${git_dir}`, ...args],
      cwd: work_dir,
    }).output();
    if (!success) throw new Error(new TextDecoder().decode(stderr));
    return new TextDecoder().decode(stdout).trim();
  };
  await git("init", "-q", "--bare");
  await git(`--work-tree=${work_dir}`, "add", "-A");
  await git(`--work-tree=${work_dir}`, "commit", "-q", "--allow-empty", "-m", "x");
  return { git_dir, base_commit: await git("rev-parse", "HEAD") };
}

/** Not every image has npm; this machine's runs anywhere. */
async function copyNpm(target: string): Promise<void> {
  const cli = await Deno.realPath("/usr/bin/npm");
  const source = cli.replace(/\/bin\/npm-cli\.js$/, "");
  const { success, stderr } = await new Deno.Command("cp", { args: ["-R", source, target] }).output();
  if (!success) throw new Error(new TextDecoder().decode(stderr));
}
