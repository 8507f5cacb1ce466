/**
 * A command that tries everything: what it should be able to do, and what it
 * should not. Put in the place of each real command by `probe_main.ts`.
 */

import { spawnSync } from "node:child_process";
import { readFileSync, statfsSync } from "node:fs";
import process from "node:process";
import { DatabaseSync } from "node:sqlite";
import type { Args } from "../../../cli/plan/args.ts";
import { findCommand } from "../../../cli/table/commands.ts";

/** How each attempt ended: `done`, `refused` by a permission, or the error it got past the permissions with. */
export type ProbeReport = { inside: Record<string, string>; outside: Record<string, string> };

type Attempt = () => unknown;

/** What a command may need. Which of these work depends on the command. */
function insideAttempts(store: string, socket: string, server: Deno.ConnectOptions): Record<string, Attempt> {
  return {
    "read the store": () => Deno.readTextFileSync(`${store}/object`),
    "write the store": () => Deno.writeTextFileSync(`${store}/new`, ""),
    "run cp": () => new Deno.Command("/usr/bin/cp", { args: ["--version"], stdout: "null" }).outputSync(),
    "ask for the file system's type": () => statfsSync(store),
    "set the umask": () => Deno.umask(Deno.umask(0o77)),
    "connect to the socket": async () => (await Deno.connect({ transport: "unix", path: socket })).close(),
    "read the file named in the call": () => Deno.readTextFileSync(`${store}/../named`),
    "write the file named in the call": () => Deno.writeTextFileSync(`${store}/../named`, ""),
    "connect to the bucket's server": async () => (await Deno.connect(server)).close(),
    "read a variable of the SDK": () => Deno.env.get("AWS_REGION"),
    "read where the home directory is": () => Deno.env.get("HOME"),
    "read credentials": () => Deno.readTextFileSync(`${store}/../.aws/credentials`),
    "ask for the system's release": () => Deno.osRelease(),
  };
}

/** What no command may do. `base` is the directory that the store is in. */
function outsideAttempts(base: string): Record<string, Attempt> {
  const secret = `${base}/secret`;
  return {
    "read a file": () => Deno.readTextFileSync(secret),
    "read a file through dots": () => Deno.readTextFileSync(`${base}/store/../secret`),
    "read a file through node:fs": () => readFileSync(secret),
    "read a system file": () => Deno.readTextFileSync("/etc/passwd"),
    "read another process's environment": () => Deno.readFileSync("/proc/self/environ"),
    "look at a file": () => Deno.lstatSync(secret),
    "list a directory": () => [...Deno.readDirSync(base)],
    "write a file": () => Deno.writeTextFileSync(`${base}/planted`, ""),
    "remove a file": () => Deno.removeSync(secret),
    "copy a file": () => Deno.copyFileSync(secret, `${base}/store/copied`),
    "fetch a file": async () => await (await fetch(`file://${secret}`)).text(),
    "cut a file": () => Deno.truncateSync(secret),
    "change the mode of a file": () => Deno.chmodSync(secret, 0o777),
    "watch a directory": () => Deno.watchFs(base).close(),
    "change the directory": () => Deno.chdir("/"),
    "signal a process": () => Deno.kill(Deno.ppid, "SIGCONT"),
    "move a file": () => Deno.renameSync(secret, `${base}/store/secret`),
    "link to a file": () => Deno.linkSync(secret, `${base}/store/linked`),
    "link symbolically to a file": () => Deno.symlinkSync(secret, `${base}/store/symlink`),
    "make a directory": () => Deno.mkdirSync(`${base}/directory`),
    "open a database": () => new DatabaseSync(`${base}/other.db`).close(),
    "attach a database": () => {
      const db = new DatabaseSync(":memory:");
      try {
        db.exec(`ATTACH '${base}/other.db' AS other; CREATE TABLE other.planted(a)`);
      } finally {
        db.close();
      }
    },
    "run a program": () => new Deno.Command("/bin/ls").outputSync(),
    "run a shell": () => new Deno.Command("sh", { args: ["-c", "true"] }).outputSync(),
    "run deno with all permissions": () =>
      new Deno.Command(Deno.execPath(), { args: ["eval", "-A", "0"] }).outputSync(),
    "run a program through node:child_process": () => {
      const { error } = spawnSync("/bin/ls");
      if (error) throw error;
    },
    "run cp with a library of one's own": () =>
      new Deno.Command("/usr/bin/cp", { args: ["--version"], env: { LD_PRELOAD: secret }, stdout: "null" })
        .outputSync(),
    "connect by TCP": async () => (await Deno.connect({ hostname: "127.0.0.1", port: 9 })).close(),
    "open a web socket": () => new WebSocket("ws://127.0.0.1:9").close(),
    "fetch": async () => await fetch("http://127.0.0.1:8990/"),
    "look a name up": async () => await Deno.resolveDns("localhost", "A"),
    "listen by TCP": () => Deno.listen({ hostname: "127.0.0.1", port: 0 }).close(),
    "connect to another unix socket": async () =>
      (await Deno.connect({ transport: "unix", path: `${base}/other.sock` })).close(),
    "listen on another unix socket": () => Deno.listen({ transport: "unix", path: `${base}/mine.sock` }).close(),
    "read a variable of the environment": () => Deno.env.get("PATH"),
    "read the environment": () => Deno.env.toObject(),
    "read the environment through node:process": () => process.env.PATH,
    "set a variable of the environment": () => Deno.env.set("PLANTED", "1"),
    "write credentials": () => Deno.writeTextFileSync(`${base}/.aws/credentials`, ""),
    "ask for the host's name": () => Deno.hostname(),
    "ask for the network's interfaces": () => Deno.networkInterfaces(),
    "load a library": () => Deno.dlopen(secret, {}),
    "import a module": async () => await import(`file://${base}/module.ts`),
    "start a thread that may do more": () => {
      const url = URL.createObjectURL(new Blob(["self.close()"], { type: "text/javascript" }));
      new Worker(url, { type: "module", deno: { permissions: { read: true } } });
    },
    "ask for more": () => {
      for (const name of ["read", "write", "net", "run", "env", "sys", "ffi"] as const) {
        if (Deno.permissions.requestSync({ name }).state === "granted") return name;
      }
      throw new Deno.errors.NotCapable("not granted");
    },
  };
}

/** Makes every attempt. */
export async function run(args: Args): Promise<ProbeReport> {
  // Commands that know no store are tried with places that any process could use.
  const store = args.plan.workspace || args.optional("source") || brokerFolder(args) || "/tmp/store";
  const [hostname, port] = (args.plan.s3?.access.net[0] ?? "127.0.0.1:8991").split(":");
  const server = { hostname: hostname!, port: Number(port) };
  const inside = await attemptAll(insideAttempts(store, args.plan.socket || `${store}/taskd.sock`, server));
  return { inside, outside: await attemptAll(outsideAttempts(store.slice(0, store.lastIndexOf("/")))) };
}

/** Where the broker's socket is, for commands that ask it or are the broker. */
function brokerFolder(args: Args): string | undefined {
  const { uses } = findCommand(args.plan.command) ?? {};
  return uses === "broker" || uses === "home" ? args.broker.socket.replace(/\/[^/]*$/, "") : undefined;
}

/** Not used: the report is read as JSON. */
export function render(report: ProbeReport): string {
  return JSON.stringify(report);
}

async function attemptAll(attempts: Record<string, Attempt>): Promise<Record<string, string>> {
  const outcomes: Record<string, string> = {};
  for (const [name, attempt] of Object.entries(attempts)) {
    try {
      const value = await attempt();
      // node's process.env answers undefined for what may not be read.
      outcomes[name] = name.endsWith("node:process") && value === undefined ? "refused" : "done";
    } catch (error) {
      outcomes[name] = isRefusal(error) ? "refused" : String(error);
    }
  }
  return outcomes;
}

function isRefusal(error: unknown): boolean {
  if (error instanceof Deno.errors.NotCapable) return true;
  // Without every file permission, SQLite in this runtime may attach no database at all.
  return error instanceof Error && /Requires .* access|escalate parent|attached databases - max 0/.test(String(error));
}
