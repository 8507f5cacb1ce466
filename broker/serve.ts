/**
 * The task broker: one process that serves the tasks of one home directory.
 *
 * It starts in an order that cannot hurt another broker and leaves nothing behind when a step fails: the lock, the
 * configuration, what an earlier broker left running, the network, the gateway and the proxy, the tasks, and only then
 * the listeners that people use. It stops in the opposite order.
 */

import { denoCache } from "../lib/helper_process.ts";
import { type Clock, type RandomBytes, systemClock, systemRandom } from "../lib/clock.ts";
import { isFile, removeFolder, removeUnfinished, withFileError } from "../lib/fs.ts";
import { connectionLimits } from "../lib/descriptors.ts";
import { hostPort } from "../lib/http/address.ts";
import { MAX_HTTP_CONNECTIONS } from "../lib/http/server.ts";
import { VERSION } from "../lib/version.ts";
import { Admission } from "./admission/admission.ts";
import { CheckWatch } from "./engine/ci/watch.ts";
import { DependencyCache, quotaBytes } from "./cache/dependency_cache.ts";
import { TaskDatabases } from "./databases/task_databases.ts";
import { Dialer } from "./egress/dialer.ts";
import { EGRESS_LIMITS, EgressProxy, type EgressProxyOptions } from "./egress/proxy.ts";
import { type DiskMeter, diskMeter } from "./engine/disk_count.ts";
import { StageRoom, type StageRoomOptions } from "./engine/stage_room.ts";
import { Engine } from "./engine/engine.ts";
import { setupRunner } from "./engine/setup.ts";
import { type Lanes, openLanes } from "./engine/upstreams.ts";
import { Gateway, type GatewayOptions, MAX_GATEWAY_CONNECTIONS } from "./gateway/gateway.ts";
import { parsePriceFile, PriceBook } from "./gateway/prices.ts";
import { readGitSettings } from "./git/operator_settings.ts";
import { HOST_VARIABLES, TOKEN_VARIABLES } from "./git/credentials.ts";
import type { Git } from "./git/git.ts";
import { openGit } from "./git/open_git.ts";
import { Gh } from "./git/gh.ts";
import { Mirrors } from "./git/mirrors.ts";
import { serveHttp } from "./http/serve.ts";
import { createLog, type Log } from "../lib/log.ts";
import { DesktopNotifier, notifyPrograms } from "./engine/notify.ts";
import { DurableQueue } from "./engine/queue/queue.ts";
import { askProgram, PROGRAM_PATHS } from "./sandbox/host_programs.ts";
import { seccompFilter } from "./sandbox/bubblewrap/seccomp_filter.ts";
import { endProcesses, type RunningProcess } from "./sandbox/processes.ts";
import { parentOf } from "../lib/real_path.ts";
import { EMPTY_VIEW, type ReadHostView } from "./sandbox/bubblewrap/host_view.ts";
import { listenForSandboxes } from "./sandbox/bubblewrap/sandbox_sockets.ts";
import type { SandboxRuntime } from "./sandbox/runtime.ts";
import { apiTokensPath, metricsToken, readKeys } from "./settings/keys.ts";
import { loadSettings, type ResolvedSettings, taskdHome } from "./settings/load.ts";
import { readPrivateFile } from "./settings/private_file.ts";
import { requireOwnRoots } from "./settings/roots.ts";
import type { Settings } from "./settings/settings.ts";
import { closeDirectory } from "./settings/seed.ts";
import { requireTrusted } from "../lib/trusted_path.ts";
import { startWarnings } from "./settings/warnings.ts";
import { claimHome, explainForeignSocket, healthOverSocket } from "./client/lifecycle.ts";
import { TaskStore } from "./task/task_store.ts";
import { webResponse } from "./web/web.ts";
import { sha256Hex } from "../lib/sha256.ts";

/** What a task does leaves the API its part: each of its listeners has as many. */
function connectionUses({ api_addr, metrics_addr }: Settings["broker"]) {
  const listeners = 3 + [api_addr, metrics_addr].filter((address) => address !== "").length;
  return {
    api: { most: MAX_HTTP_CONNECTIONS, descriptors: listeners, share: 0.4 },
    gateway: { most: MAX_GATEWAY_CONNECTIONS, descriptors: 2, share: 0.3 },
    proxy: { most: EGRESS_LIMITS.connections, descriptors: 2, share: 0.3 },
  };
}

export interface ServeBrokerOptions {
  /** The user's home directory, absolute; `~/.taskd` must exist. */
  home: string;
  env: (name: string) => string | undefined;
  write: (line: string) => void;
  /** Whether a person reads the log: lines in place of JSON, unless `log_json`. */
  terminal?: boolean;
  /** Descriptors that the process may have open: they bound its connections. */
  open_files?: number | undefined;
  signal?: AbortSignal | undefined;
  clock?: Clock;
  /** Where each program of the host may be, the first that is there counts; by default the fixed places of each. */
  programs?: Partial<typeof PROGRAM_PATHS> | undefined;
  /** What sandboxes see of the host where its own programs run in them; nothing by default. */
  view?: ReadHostView | undefined;
  /** Randomness for ids, tokens and passwords, by default the system's. */
  random?: RandomBytes;
  /** Other parts, for tests. */
  overrides?: BrokerOverrides;
}

export interface BrokerOverrides {
  runtime?: SandboxRuntime;
  egress?: Pick<EgressProxyOptions, "resolve" | "connect" | "timeouts" | "limits">;
  gateway?: Pick<GatewayOptions, "limits" | "timeouts">;
  meter?: DiskMeter;
  space?: StageRoomOptions["space"];
}

export interface RunningBroker {
  readonly socket: string;
  /** `host:port` of the TCP listeners, where there are any. */
  readonly addr?: string;
  readonly api_addr?: string;
  readonly metrics_addr?: string;
  /** Address of the web pages, without the code that begins a session. */
  readonly ui_url: string;
  readonly engine: Engine;
  readonly finished: Promise<void>;
  /** Ends what runs, keeps what waits for a person, and resolves with {@linkcode RunningBroker.finished}. */
  stop(): Promise<void>;
}

const CREDENTIAL_VARIABLES = [...HOST_VARIABLES, ...TOKEN_VARIABLES, "SSH_AUTH_SOCK"] as const;

/**
 * Serves until it is stopped.
 *
 * @throws {TaskdError} `broker_running` when another broker serves this home; `invalid_config` with its place; else what
 * is wrong with the step that failed. Nothing is left behind then.
 */
export async function serveBroker(options: ServeBrokerOptions): Promise<RunningBroker> {
  const { home, signal, clock = systemClock, random = systemRandom, overrides = {} } = options;
  await using cleanup = new AsyncDisposableStack();
  requireTrusted(taskdHome(home), "home");
  const lock = await claimHome(home, clock);
  cleanup.defer(() => lock.release());
  closeDirectory(taskdHome(home));

  const host = await openHost({ ...options, clock, random, overrides, cleanup });
  const { resolved, log } = host;
  const sandboxes = await openSandboxes(host);
  // Settlements come when there are tasks, and tasks when there is an engine.
  const late: { engine?: Engine } = {};
  const network = await openNetwork(host, sandboxes, late);
  const engine = late.engine = await openEngine(host, {
    ...sandboxes,
    ...network,
    admission: await openAdmission(host),
  });
  cleanup.defer(() => engine.stop());
  const { broker } = resolved.settings;
  const http = await serveHttp({
    engine,
    socket: broker.socket,
    web: webResponse,
    max_connections: connectionLimits(host.open_files, connectionUses(broker)).api,
    addr: broker.addr,
    api_addr: broker.api_addr,
    metrics_addr: broker.metrics_addr,
    metrics_token: host.metrics_token,
    tokens: apiTokensPath(home),
    log: (line) => log("error", "http", line),
    clock,
    random,
  }).catch((error) => explainForeignSocket(error, { home, socket: broker.socket, askHealth: healthOverSocket(clock) }));
  cleanup.defer(() => http.close());
  const { socket, addr, api_addr, metrics_addr, ui_url } = http;
  lock.update({ socket });
  const listening = {
    socket,
    ...(addr && { addr }),
    ...(api_addr && { api_addr }),
    ...(metrics_addr && { metrics_addr }),
    ui_url,
  };
  const addresses = { ...listening, runtime: sandboxes.runtime.name };
  log("info", "broker_started", `taskd ${VERSION} serves ${taskdHome(home)}`, addresses);
  const opened = cleanup.move();
  const stopping = Promise.withResolvers<void>();
  const finished = stopping.promise.then(async () => {
    log("info", "broker_stopping", "stopping: tasks that run are ended, those at the gate are kept");
    http.stopAccepting();
    // Before the streams are cut, so that a follower of a task sees how it ended.
    await engine.stop();
    await opened.disposeAsync();
    log("info", "broker_stopped", "stopped");
  });
  const stop = () => {
    stopping.resolve();
    return finished;
  };
  if (signal?.aborted) stopping.resolve();
  signal?.addEventListener("abort", () => stopping.resolve(), { once: true });
  return { ...listening, engine, finished, stop };
}

type OpenOptions =
  & ServeBrokerOptions
  & Required<Pick<ServeBrokerOptions, "clock" | "random" | "overrides">>
  & { cleanup: AsyncDisposableStack };

/** What the broker needs of its host: the configuration, the log, credentials, git, and the tasks on the disk. */
interface Host extends OpenOptions {
  resolved: ResolvedSettings;
  log: Log;
  lanes: Lanes;
  prices: PriceBook;
  metrics_token: string | undefined;
  git: Git;
  programs: typeof PROGRAM_PATHS;
  gh_path: string | undefined;
  empty_dir: string;
  tasks: TaskStore;
}

async function openHost(options: OpenOptions): Promise<Host> {
  const { home, env, clock, random, cleanup } = options;
  const resolved = await loadSettings({ home, env });
  const { settings } = resolved;
  requireOwnRoots(settings, home);
  const json = settings.log_json || options.terminal !== true;
  const { log, hide } = createLog({ json, clock, write: options.write });
  const key_file = await readKeys(home);
  const lanes = openLanes({ resolved, home, env, key_file, clock, log });
  const metrics_token = metricsToken(settings.broker, { env, file: key_file });
  hide(metrics_token ?? "");
  for (const secret of lanes.secrets) hide(secret);
  for (const name of TOKEN_VARIABLES) hide(env(name) ?? "");
  for (const warning of startWarnings(settings)) log("warn", "configuration", warning);
  const prices = await openPrices(home, resolved, clock);
  const empty_dir = await emptyDirectory(`${taskdHome(home)}/empty`);
  const programs = { ...PROGRAM_PATHS, ...options.programs };
  const git = await openGit(
    { home: empty_dir, clock, places: programs.git, run_hooks_of: settings.run_hooks_of },
    {
      ask: askProgram({ env, clock }),
      bwraps: programs.bubblewrap,
      filter: seccompFilter(Deno.build.arch),
      programs: `${taskdHome(home)}/git-programs`,
    },
  );
  await git.version();
  const gh_path = programs.gh.find(isFile);
  if (settings.ci.watch && gh_path === undefined) {
    const warning = "ci.watch is on and gh is not installed: nothing is watched, and no pull request opened";
    log("warn", "configuration", warning);
  }
  const tasks = await TaskStore.open(settings.audit_root, { clock, random, log });
  cleanup.defer(() => tasks.close());
  return { ...options, programs, resolved, log, lanes, prices, metrics_token, git, gh_path, empty_dir, tasks };
}

type Sandboxes = Awaited<ReturnType<typeof openSandboxes>>;

/** Opens the runtime and ends what an earlier broker left in it. */
async function openSandboxes(host: Host) {
  const { resolved: { settings }, log, clock, random, overrides, cleanup } = host;
  const runtime = overrides.runtime ?? await openConfiguredRuntime(host);
  const runtime_version = await runtime.version();
  const swept = await runtime.sweep(new Set());
  if (swept.length > 0) log("warn", "sandboxes_swept", `ended ${swept.length} sandboxes of an earlier broker`);
  const cache = await DependencyCache.open({
    cache_root: settings.cache_root,
    quota_bytes: quotaBytes(settings.cache_quota_gb),
    clock,
    random,
    onWarning: (message) => log("warn", "cache", message),
  });
  cleanup.defer(() => cache.close());
  cleanup.defer(() => runtime.close());
  return { runtime, runtime_version, cache };
}

type Network = Awaited<ReturnType<typeof openNetwork>>;

async function openNetwork(host: Host, { runtime }: Sandboxes, late: { engine?: Engine }) {
  const { resolved, log, lanes, prices, clock, random, overrides, cleanup } = host;
  const { listen } = await runtime.prepare();
  const { sockets } = listen;
  const socketOf = async (name: "gateway" | "proxy") => {
    if (sockets === undefined) return undefined;
    const listener = await listenForSandboxes(sockets[name], sockets.owner);
    cleanup.defer(() => void listener.close());
    return listener;
  };
  const limits = connectionLimits(host.open_files, connectionUses(resolved.settings.broker));
  const gateway = Gateway.start({
    hostname: listen.hostname,
    port: listen.gateway_port,
    listener: await socketOf("gateway"),
    upstreams: lanes.upstreams,
    prices,
    clock,
    random,
    log: (line) => log("error", "gateway", line),
    onSettled: (lease, settlement) => late.engine?.settled(lease, settlement),
    max_connections: limits.gateway,
    ...overrides.gateway,
  });
  cleanup.defer(() => gateway.close());
  const proxy = EgressProxy.listen({ hostname: listen.hostname, port: listen.proxy_port }, {
    clock,
    random,
    egress: resolved.egress,
    log_dir: resolved.settings.squid_run_dir,
    onDecision: (decision) => late.engine?.decided(decision),
    ...overrides.egress,
    limits: { connections: limits.proxy, ...overrides.egress?.limits },
  }, await socketOf("proxy"));
  cleanup.defer(() => proxy.close());
  return { gateway, proxy };
}

async function openAdmission({ resolved: { settings }, log, clock, cleanup }: Host): Promise<Admission> {
  const admission = await Admission.open({
    audit_root: settings.audit_root,
    settings,
    clock,
    log: (line) => log("warn", "admission", line),
  });
  cleanup.defer(() => admission.close());
  for (const warning of admission.warnings) log("warn", "admission", warning);
  return admission;
}

async function openEngine(
  host: Host,
  { runtime, runtime_version, cache, gateway, proxy, admission }: Sandboxes & Network & { admission: Admission },
): Promise<Engine> {
  const { home, env, resolved, log, lanes, git, gh_path, tasks, clock, random, overrides, cleanup } = host;
  const { settings } = resolved;
  const queue_dir = `${taskdHome(home)}/queue`;
  // What a broker was writing when it was killed; nothing is being written there now.
  for (const directory of [settings.audit_root, `${settings.audit_root}/global`, queue_dir]) {
    requireTrusted(directory, "root");
    removeUnfinished(directory);
  }
  const operator_env = Object.fromEntries(CREDENTIAL_VARIABLES.map((name) => [name, env(name)]));
  const gh = gh_path && new Gh({ path: gh_path, cwd: host.empty_dir, git_path: git.path, env: operator_env, clock });
  const notifier = new DesktopNotifier({
    enabled: settings.notifications,
    env,
    log,
    clock,
    programs: notifyPrograms(host.programs),
  });
  cleanup.defer(() => notifier.close());
  return await Engine.open({
    resolved,
    tasks,
    git,
    signal: host.signal,
    runtime,
    gateway,
    gateway_url: `http://${hostPort(gateway.address)}`,
    proxy,
    admission,
    dialer: new Dialer({ clock, ...overrides.egress }),
    ...(settings.mirror_quota_gb > 0 && {
      mirrors: new Mirrors({
        root: `${settings.cache_root}/mirrors`,
        quota_bytes: quotaBytes(settings.mirror_quota_gb),
        clock,
        endProcesses: (isOne, signal) => {
          // A sandbox of another user may say in its own arguments what it likes.
          const own = (one: RunningProcess) => one.uid === Deno.uid() && isOne(one.command_line);
          return endProcesses(clock, (all) => all.filter(own), { signal });
        },
        onWarning: (message) => log("warn", "mirror", message),
      }),
    }),
    credentials: {
      env: operator_env,
      settings: await readGitSettings(git, operator_env, host.signal),
      ...(gh_path && { gh_path }),
    },
    ...(gh && { code_host: gh }),
    credentialProblem: lanes.credentialProblem,
    meter: overrides.meter ?? diskMeter(clock),
    room: new StageRoom({ stage_root: settings.stage_root, log, ...overrides.space && { space: overrides.space } }),
    setup: setupRunner({ settings, runtime, runtime_version, cache, git, clock }),
    databases: new TaskDatabases({
      socket: settings.branch_store.socket,
      deno_path: Deno.execPath(),
      deno_cache_dir: denoCache(home, env),
      random,
      log,
      clock,
    }),
    notify: (task) => notifier.notify(task),
    ...(settings.ci.watch && gh && {
      ci: (engine) =>
        new CheckWatch({
          poll_interval_ms: settings.ci.poll_interval,
          watch_timeout_ms: settings.ci.watch_timeout,
          max_attempts: settings.ci.max_attempts,
          code_host: gh,
          tasks,
          engine,
          log,
          clock,
          random,
        }),
    }),
    queue: (engine) => new DurableQueue({ directory: queue_dir, tasks, engine, log, clock, random }),
    log,
    clock,
  });
}

/** Loaded when it is needed: a test that brings its own runtime looks for no program of the host. */
async function openConfiguredRuntime(
  { home, env, clock, signal, programs, resolved: { settings }, log, view = EMPTY_VIEW }: Host,
): Promise<SandboxRuntime> {
  const { openRuntime } = await import("./sandbox/open_runtime.ts");
  return await openRuntime({
    settings,
    owner: ownerOf(home),
    env,
    deno_path: Deno.execPath(),
    deno_cache_dir: denoCache(home, env),
    view,
    run_dir: parentOf(settings.broker.socket),
    clock,
    onWarning: (message) => log("warn", "runtime", message),
    places: programs,
    signal,
  });
}

/** The same after every start: by it a broker knows the sandboxes of its predecessor. */
export function ownerOf(home: string): string {
  return sha256Hex(`taskd ${Deno.realPathSync(taskdHome(home))}`).slice(0, 32);
}

async function openPrices(home: string, { settings }: ResolvedSettings, clock: Clock): Promise<PriceBook> {
  const path = `${taskdHome(home)}/prices.json`;
  const text = await readPrivateFile(path, "own");
  return new PriceBook({
    now: () => clock.now(),
    compat: settings.compat.prices,
    ...(text === undefined ? {} : { overrides: parsePriceFile(text, path) }),
  });
}

/** HOME and working directory of git and gh: a file in it would have its say. */
async function emptyDirectory(path: string): Promise<string> {
  await removeFolder(path);
  return await withFileError(`Cannot make ${path}`, async () => {
    await Deno.mkdir(path, { mode: 0o500 });
    return path;
  });
}
