import { assert, assertEquals } from "@std/assert";
import { COMMANDS, findCommand } from "../../cli/table/commands.ts";
import { launchFlags } from "../../cli/table/launch_flags.ts";
import type { CommandSpec, PositionalSpec } from "../../cli/plan/command_spec.ts";
import { scaledTest, shortened } from "../support/long.ts";
import type { ProbeReport } from "./support/probe.ts";
import { denoDirectory } from "../support/deno_directory.ts";

const STORE = ["read the store", "write the store", "run cp", "ask for the file system's type"];
const SOCKET = ["connect to the socket"];
const BUCKET = [
  "connect to the bucket's server",
  "read a variable of the SDK",
  "read where the home directory is",
  "read credentials",
  "ask for the system's release",
];
const NAMED = ["read the file named in the call", "write the file named in the call"];

/** What each command may do, listed here a second time so that a slip in the table is seen. */
function expected(command: CommandSpec, route: "store" | "socket"): string[] {
  const name = command.name;
  if (["version", "help", "completion"].includes(name)) return [];
  if (name === "serve" || name === "mcp") return [...STORE, ...SOCKET];
  if (command.uses === "broker") return isSubmission(command) ? [...SOCKET, NAMED[0]!] : [...SOCKET];
  if (name.startsWith("session ") || name === "watch") return [...SOCKET];
  if (name === "create") return [...STORE, NAMED[0]!];
  if (name === "export") return route === "socket" ? [...STORE, ...SOCKET, ...NAMED] : [...STORE, ...NAMED];
  if (["path", "verify", "copy-store"].includes(name) || route === "store") return [...STORE];
  return [...SOCKET];
}

/** Takes an instruction, which may be in a file. */
function isSubmission({ name }: CommandSpec): boolean {
  return name === "submit" || name === "queue add";
}

const SAMPLES: Record<PositionalSpec["kind"], string> = {
  database: "shop",
  address: "shop@main",
  branch: "shop@try",
  name: "v1",
  file: "named",
  store: "store",
  repo: "./named",
  word: "bash",
};

/** Where the store is: in a directory, or in a bucket, of which then the target of a copy is a part. */
type Where = "directory" | "bucket";

function words(command: CommandSpec, where: Where): string[] {
  const flags = command.flags.filter((flag) => flag.required).flatMap((
    flag,
  ) => [`--${flag.name}`, flag.choices?.[0] ?? (flag.kind === "duration" ? "1h" : "v1")]);
  if (command.name === "create") flags.push("--from", "named");
  if (isSubmission(command)) flags.push("--file", "named");
  const named = command.positionals.map(({ name, kind }) =>
    name === "target" && where === "bucket" ? "s3://bucket/copy" : SAMPLES[kind]
  );
  return [...command.name.split(" "), ...named, ...flags];
}

async function probe(command: CommandSpec, route: "store" | "socket", where: Where): Promise<ProbeReport> {
  const base = await Deno.makeTempDir({ prefix: "probe-" });
  try {
    for (const directory of ["store", ".aws"]) await Deno.mkdir(`${base}/${directory}`);
    for (const file of ["secret", "named", "store/object", ".aws/credentials"]) {
      await Deno.writeTextFile(`${base}/${file}`, file);
    }
    await Deno.writeTextFile(`${base}/module.ts`, "export {};");
    using _socket = Deno.listen({ transport: "unix", path: `${base}/store/taskd.sock` });
    using _other = Deno.listen({ transport: "unix", path: `${base}/other.sock` });
    const socket = route === "socket" ? ["--socket", `${base}/store/taskd.sock`] : [];
    using server = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    const store = where === "directory"
      ? ["--store", "store"]
      : ["--store", "s3://bucket/store", "-s3-endpoint", `http://127.0.0.1:${server.addr.port}`, "-workspace", "store"];
    const main = new URL("./support/probe_main.ts", import.meta.url).pathname;
    const args = ["run", ...launchFlags(), main, "--json", ...store, ...socket, ...words(command, where)];
    const broker = { BROKER_SOCKET: `${base}/store/taskd.sock` };
    const env = { ...broker, HOME: base, AWS_ACCESS_KEY_ID: "id", DENO_DIR: await denoDirectory() };
    const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), { args, cwd: base, env }).output();
    const text = new TextDecoder().decode(stdout);
    assertEquals(code, 0, `${text}${new TextDecoder().decode(stderr)}`);
    return JSON.parse(text);
  } finally {
    await Deno.remove(base, { recursive: true });
  }
}

async function compare(command: CommandSpec, route: "store" | "socket", where: Where): Promise<void> {
  const { inside, outside } = await probe(command, route, where);
  const allowed = Object.keys(inside).filter((attempt) => inside[attempt] === "done");
  const required = expected(command, route);
  if (where === "bucket" && required.includes("write the store")) required.push(...BUCKET);
  assertEquals(allowed.toSorted(), required.toSorted(), JSON.stringify(inside));
  for (const [attempt, outcome] of Object.entries({ ...inside, ...outside })) {
    if (!allowed.includes(attempt)) assertEquals(outcome, "refused", attempt);
  }
  assert(Object.keys(outside).length > 30);
}

const ROUTED = COMMANDS.filter(({ uses }) => uses !== "home").flatMap((command) =>
  (command.uses === "branches" ? ["store", "socket"] as const : ["store"] as const).map((route) => ({ command, route }))
);
for (const { command, route } of shortened(ROUTED, 24)) {
  const how = command.uses === "branches" ? ` (on the ${route})` : "";
  scaledTest(`${command.name}${how} can do what it needs and is refused everything else`, async () => {
    await compare(command, route, "directory");
  });
}

const STORING = COMMANDS.filter(({ uses }) => ["store", "stores", "branches", "serve"].includes(uses));
for (const command of shortened(STORING, 6)) {
  const how = command.uses === "stores" ? "to a bucket" : "on a bucket";
  scaledTest(`${command.name} ${how} reaches its server and what the SDK needs, nothing else`, async () => {
    await compare(command, "store", "bucket");
  });
}

Deno.test("a client of the daemon reaches no bucket, though its store is in one", async () => {
  await compare(findCommand("fork")!, "socket", "bucket");
});

/** What commands of the home directory may do; `~/.taskd` is in the store's place, and the broker's socket is in it. */
const READS = ["read the store", "read where the home directory is"];
const EXAMINES = [...READS, ...SOCKET, "ask for the file system's type"];
/** A broker starts programs and serves a network whose addresses are only known then; files have a list all the same. */
const BROKER = {
  inside: [...EXAMINES, "run cp", "connect to the bucket's server", "ask for the system's release"],
  outside: [
    "run a program",
    "run a shell",
    "run deno with all permissions",
    "run cp with a library of one's own",
    "signal a process",
    "connect by TCP",
    "open a web socket",
    "fetch",
    "look a name up",
    "listen by TCP",
    "ask for the host's name",
    "ask for the network's interfaces",
    "ask for more",
  ],
};
const HOME: Record<string, { inside: string[]; outside?: string[] }> = {
  init: { inside: ["read the store", "write the store"] },
  setup: { inside: ["write the store", ...EXAMINES] },
  doctor: { inside: EXAMINES },
  start: { ...BROKER, inside: [...BROKER.inside, "write the store"] },
  redteam: BROKER,
  // It touches the temporary directory alone, and nothing of the installation.
  demo: {
    inside: ["read where the home directory is", "run cp", "connect to the bucket's server"],
    outside: [
      "run a program",
      "run a shell",
      "run deno with all permissions",
      "run cp with a library of one's own",
      "signal a process",
      "connect by TCP",
      "open a web socket",
      "fetch",
      "look a name up",
      "listen by TCP",
      "read a variable of the environment",
      "read the environment through node:process",
      "ask for more",
    ],
  },
  stats: { inside: SOCKET },
  // Of ~/.taskd its lock, and none of the records, diffs and keys.
  stop: { inside: SOCKET },
  "service print": { inside: READS },
  "service install": { inside: READS },
  "service uninstall": { inside: READS },
  "egress suggest": { inside: READS },
  "egress allow": { inside: [...READS, "write the store"] },
  "policy explain": { inside: [...READS, ...SOCKET] },
};

async function probeHome(command: CommandSpec): Promise<ProbeReport> {
  const base = await Deno.realPath(await Deno.makeTempDir({ prefix: "probe-" }));
  try {
    const home = `${base}/home`;
    for (const directory of [".taskd", ".aws"]) await Deno.mkdir(`${home}/${directory}`, { recursive: true });
    await Deno.mkdir(`${base}/tmp`);
    await Deno.chmod(`${home}/.taskd`, 0o700);
    for (const file of ["secret", "named", ".taskd/object", ".aws/credentials"]) {
      await Deno.writeTextFile(`${home}/${file}`, file);
    }
    await Deno.writeTextFile(`${home}/module.ts`, "export {};");
    await Deno.writeTextFile(`${home}/.taskd/config.yaml`, "runtime: deno\n", { mode: 0o600 });
    using _socket = Deno.listen({ transport: "unix", path: `${home}/.taskd/taskd.sock` });
    using _other = Deno.listen({ transport: "unix", path: `${home}/other.sock` });
    const words: Record<string, string[]> = { setup: ["--yes", "--no-build-images"], "egress allow": ["example.com"] };
    const flags = words[command.name] ?? [];
    const main = new URL("./support/probe_main.ts", import.meta.url).pathname;
    const args = ["run", ...launchFlags(), main, "--json", ...command.name.split(" "), ...flags];
    const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
      args,
      cwd: home,
      env: {
        HOME: home,
        TMPDIR: `${base}/tmp`,
        BROKER_SOCKET: `${home}/.taskd/taskd.sock`,
        DENO_DIR: await denoDirectory(),
      },
    }).output();
    const text = new TextDecoder().decode(stdout);
    assertEquals(code, 0, `${text}${new TextDecoder().decode(stderr)}`);
    return JSON.parse(text);
  } finally {
    await Deno.remove(base, { recursive: true });
  }
}

for (const command of shortened(COMMANDS.filter(({ uses }) => uses === "home"), 8)) {
  scaledTest(`${command.name} can do what it needs in the home directory and is refused everything else`, async () => {
    const { inside, outside } = await probeHome(command);
    const required = HOME[command.name];
    assert(required, `${command.name} is not in the table`);
    const allowed = (attempts: Record<string, string>) =>
      Object.keys(attempts).filter((attempt) => attempts[attempt] !== "refused").toSorted();
    const expected = [required.inside.toSorted(), (required.outside ?? []).toSorted()];
    assertEquals([allowed(inside), allowed(outside)], expected, JSON.stringify({ inside, outside }));
    assert(Object.keys(outside).length > 30);
  });
}
