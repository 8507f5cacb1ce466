/** Promises of sandboxes for programs of this machine, tried from inside of one, and beside it. */

import { listenForSandboxes } from "../../broker/sandbox/bubblewrap/sandbox_sockets.ts";
import { ETC_FILES, OWN_ETC, SYSTEM_FOLDERS } from "../../broker/sandbox/bubblewrap/system_view.ts";
import { randomHex } from "../../lib/clock.ts";
import {
  attempts,
  BOMB_PIDS,
  Greeter,
  holdRights,
  lanAddress,
  refused,
  rowsOf,
  tryForkBomb,
  tryNetwork,
} from "./_attempts.ts";
import type { RedteamContext } from "./context.ts";
import { type HostSandboxes, PYTHON } from "./host_sandboxes.ts";
import { ATTEMPTS_PRELUDE, firewallAttacks, hostAttacks, WALL_ATTACKS } from "./inputs/container_scripts.ts";
import type { SecurityPromise, Trial } from "./security_promise.ts";

/** Loopback of a sandbox is its own: at this address neither its forwarder listens, nor anything of another. */
const NEIGHBOUR = "127.0.0.2";
const SOCKETS = ["/run/taskd/gateway", "/run/taskd/proxy"];
const VISIBLE = [
  ...SYSTEM_FOLDERS,
  ...ETC_FILES,
  ...OWN_ETC.map(([name]) => `/etc/${name}`),
  ...SOCKETS,
  "/run/taskd/start",
  "/run/taskd/forwarder.js",
  "/run/taskd/deno",
  "/workspace",
  "/home/agent",
];

async function sandboxesFor(trial: Trial, context: RedteamContext): Promise<HostSandboxes> {
  const { host_sandboxes: open } = context.options;
  if (typeof open !== "function") return trial.skip(open.why);
  return await context.once("host sandboxes", async () => {
    const opened = await open(await context.folder());
    context.defer(() => opened.close());
    return opened;
  });
}

export const BUBBLEWRAP_PROMISES: readonly SecurityPromise[] = [
  {
    id: "bubblewrap.network",
    promise: "A program reaches the gateway and the proxy and nothing else: no internet, no host, no neighbour",
    attacks:
      "Other ports of loopback, the host by its own address, a neighbour, the internet, metadata services, DNS in " +
      "every form, raw and packet sockets, vsock",
    async run(trial, context) {
      const sandboxes = await sandboxesFor(trial, context);
      const host = lanAddress(sandboxes.gateway_ip);
      await using _lines = await openLines(sandboxes);
      await using other = Greeter.at("127.0.0.1", 0, "another port");
      await using own = Greeter.at(host, 0, "the host");
      for (const { port } of [other, own]) await reached(trial, port === other.port ? "127.0.0.1" : host, port);
      await tryNetwork(trial, context, sandboxes, [other, own], () => NEIGHBOUR);
    },
  },
  {
    id: "bubblewrap.rights",
    promise: "Nothing in a sandbox can change its network, and nothing in it has a capability",
    attacks: "Namespaces of its own, those of its first process, set-uid, capabilities taken back, forwarding",
    async run(trial, context) {
      const sandboxes = await sandboxesFor(trial, context);
      await using _lines = await openLines(sandboxes);
      await using other = Greeter.at("127.0.0.1", 0, "another port");
      await reached(trial, "127.0.0.1", other.port);
      const before = other.accepted;
      const script = firewallAttacks({ gateway: sandboxes.gateway_ip, other_port: other.port, tools: ["nsenter"] });
      const got = await attempts(context, sandboxes, { script });
      holdRights(trial, got, 13);
      trial.attempt("connections at another port", other.accepted === before, "there were some");
    },
  },
  {
    id: "bubblewrap.walls",
    promise: "A program writes its work tree, its home and /tmp and nothing else, and gains no rights",
    attacks:
      "Writing to the root, /etc, /dev, /proc and /sys, mounts, devices, chroot, set-uid programs of the system and " +
      "of its own, modules, bpf, the clock",
    async run(trial, context) {
      const got = await walls(trial, context);
      refused(trial, got);
      trial.expect(
        "a set-user-id file of its own",
        got.get("uid of a program with the set-user-id bit") ?? "-",
        /^refused /,
      );
      trial.expect("set-user-id programs of the system", got.get("set-id programs without nosuid") ?? "-", "none");
      for (const name of ["writes its work tree", "writes its home", "writes /tmp"]) {
        trial.control(name, got.get(name) === "1", got.get(name));
      }
    },
  },
  {
    id: "bubblewrap.sight",
    promise: "A program sees its system's programs, and nothing else of the host: no home, socket, process, variable",
    attacks: "Sockets, /proc, the environment, hosts and resolvers, every folder of the host's disks, its name",
    async run(trial, context) {
      const got = await walls(trial, context);
      const words = (name: string) => (got.get(name) ?? "-").split(/\s+/).filter((word) => word !== "");
      const only = (name: string, allowed: readonly string[]) => {
        trial.none(name, words(name).filter((word) => !allowed.includes(word)));
      };
      only("sockets", ["none", ...SOCKETS]);
      trial.expect("uids of processes", got.get("uids of processes") ?? "-", "1000");
      only("environment", ["HOME", "LANG", "LC_CTYPE", "PATH", "PWD", "OLDPWD", "SHLVL"]);
      only("names", ["127.0.0.1", "::1", "localhost"]);
      trial.expect("host name", got.get("host name") ?? "-", "sandbox");
      only("folders of the host", VISIBLE);
      trial.control("its work tree", got.get("writes its work tree") === "1", got.get("writes its work tree"));
    },
  },
  {
    id: "bubblewrap.host",
    promise: "A key, a process, a socket and a port of this machine's user are out of a program's reach",
    attacks:
      "A key by its name and through /proc, sockets with a file and without, loopback, tracing, keyrings, calls of " +
      "the kernel that podman refuses; the same from beside the sandbox is the control",
    async run(trial, context) {
      const sandboxes = await sandboxesFor(trial, context);
      await using _lines = await openLines(sandboxes);
      const folder = await context.folder();
      const id = randomHex(context.random, 8);
      const places = {
        key: `${folder}/key`,
        socket: `${folder}/socket`,
        victim: `--victim=${id}`,
        abstract: `taskd-${id}`,
      };
      await Deno.writeTextFile(places.key, "a key", { mode: 0o600 });
      await using _socket = new Greeter(await listenForSandboxes(places.socket, undefined), "a socket");
      await using port = Greeter.at("127.0.0.1", 0, "a port");
      await using _victim = await startVictim(places.victim, places.abstract);
      const script = (inside: boolean, writable: string) =>
        hostAttacks({ ...places, port: port.port, inside, writable });
      const beside = await runBeside(script(false, folder));
      for (const [name, what] of beside) {
        trial.control(`${name}, beside a sandbox`, !what.startsWith("refused "), what);
      }
      const got = await attempts(context, sandboxes, { script: script(true, "/workspace") });
      for (const [name, what] of got) trial.attempt(name, what.startsWith("refused "), what);
      trial.control("the attempts", got.size > beside.size && beside.size > 5, `${got.size} and ${beside.size}`);
    },
  },
  {
    id: "bubblewrap.setup_commands",
    promise: "A setup command reaches the proxy and not the gateway: it has no business with a model",
    attacks: "The gateway's port from a sandbox of a setup phase, and its socket",
    async run(trial, context) {
      const sandboxes = await sandboxesFor(trial, context);
      await using lines = await openLines(sandboxes);
      const reach = (name: string, port: number) =>
        `attempt("${name}", lambda: connect("${sandboxes.gateway_ip}", ${port}))\n`;
      const socket = 'attempt("its socket", lambda: socket.socket(socket.AF_UNIX).connect("/run/taskd/gateway"))\n';
      const script = reach("gateway", 8088) + socket + reach("proxy", 3128);
      const got = await attempts(context, sandboxes, { script, reach: "proxy" });
      trial.expect("the gateway", got.get("gateway") ?? "-", /^refused /);
      trial.expect("the gateway's socket", got.get("its socket") ?? "-", /^refused /);
      trial.attempt("connections at the gateway", lines.gateway.accepted === 0, "there were some");
      trial.control("the proxy", got.get("proxy") === "the proxy", got.get("proxy"));
    },
  },
  {
    id: "bubblewrap.processes",
    promise: "A fork bomb meets its bound, and the sandbox still ends when it is stopped",
    attacks: `As many processes as it can make, with a bound of ${BOMB_PIDS}`,
    async run(trial, context) {
      const sandboxes = await sandboxesFor(trial, context);
      await using _lines = await openLines(sandboxes);
      await tryForkBomb(trial, context, sandboxes);
    },
  },
];

/** What every sandbox is started with: the gateway and the proxy, each of which greets. */
async function openLines({ listen }: HostSandboxes): Promise<AsyncDisposable & { gateway: Greeter }> {
  const lines = new AsyncDisposableStack();
  const gateway = lines.use(new Greeter(await listen("gateway"), "the gateway"));
  lines.use(new Greeter(await listen("proxy"), "the proxy"));
  return Object.assign(lines, { gateway });
}

/** A place that must not be reached from inside has to be there: from beside a sandbox it answers. */
async function reached(trial: Trial, hostname: string, port: number): Promise<void> {
  const works = await Deno.connect({ hostname, port }).then((conn) => (conn.close(), true), () => false);
  trial.control(`${hostname}:${port}, beside a sandbox`, works);
}

/** Attempts at the walls, made once for the promises that are about them. */
async function walls(trial: Trial, context: RedteamContext): Promise<Map<string, string>> {
  const sandboxes = await sandboxesFor(trial, context);
  return await context.once("walls of bubblewrap", async () => {
    await using _lines = await openLines(sandboxes);
    const home = { source: await context.folder(), target: "/home/agent", writable: true };
    return await attempts(context, sandboxes, { script: WALL_ATTACKS, mounts: [home], env: { HOME: "/home/agent" } });
  });
}

/** A program of the user's with something to see in its command line, and an abstract socket. */
async function startVictim(mark: string, abstract: string): Promise<AsyncDisposable> {
  const script = "import socket, sys\nit = socket.socket(socket.AF_UNIX)\nit.bind('\\0' + sys.argv[2])\nit.listen()\n" +
    "print('ready', flush=True)\nwhile True: it.accept()[0].sendall(b'a victim')";
  const child = new Deno.Command(PYTHON, {
    args: ["-c", script, mark, abstract],
    clearEnv: true,
    stdin: "null",
    stdout: "piped",
    stderr: "null",
  }).spawn();
  const reader = child.stdout.getReader();
  await reader.read();
  await reader.cancel();
  return child;
}

/** Runs a harmless script of attempts as this user, in no sandbox. */
async function runBeside(script: string): Promise<Map<string, string>> {
  const command = new Deno.Command(PYTHON, {
    args: ["-c", `${ATTEMPTS_PRELUDE}${script}`],
    clearEnv: true,
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  });
  const { code, stdout, stderr } = await command.output();
  const lines = (bytes: Uint8Array) => new TextDecoder().decode(bytes).split("\n");
  return rowsOf({ code, out: lines(stdout), err: lines(stderr) });
}
