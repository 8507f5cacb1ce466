import { assert, assertEquals } from "@std/assert";
import { COMMANDS, launchFlags } from "../../cli/commands.ts";
import type { CommandSpec, PositionalSpec } from "../../cli/command.ts";
import type { ProbeReport } from "./support/probe.ts";

const STORE = ["read the store", "write the store", "run cp", "ask for the file system's type"];
const SOCKET = ["connect to the socket"];
const NAMED = ["read the file named in the call", "write the file named in the call"];

/** What each command may do, told here a second time so that a slip in the table is seen. */
function expected(command: CommandSpec, route: "store" | "socket"): string[] {
  const name = command.name;
  if (["version", "help", "completion"].includes(name)) return [];
  if (name === "serve") return [...STORE, ...SOCKET, "set the umask"];
  if (name.startsWith("session ") || name === "watch") return SOCKET;
  if (name === "create") return [...STORE, NAMED[0]!];
  if (name === "export") return route === "socket" ? [...STORE, ...SOCKET, ...NAMED] : [...STORE, ...NAMED];
  if (name === "path" || name === "verify" || route === "store") return STORE;
  return SOCKET;
}

const SAMPLES: Record<PositionalSpec["kind"], string> = {
  database: "shop",
  address: "shop@main",
  branch: "shop@try",
  name: "v1",
  file: "named",
  word: "bash",
};

function words(command: CommandSpec): string[] {
  const flags = command.flags.filter((flag) => flag.required).flatMap((flag) => [`--${flag.name}`, "v1"]);
  if (command.name === "create") flags.push("--from", "named");
  return [...command.name.split(" "), ...command.positionals.map((positional) => SAMPLES[positional.kind]), ...flags];
}

async function probe(command: CommandSpec, route: "store" | "socket"): Promise<ProbeReport> {
  const base = await Deno.makeTempDir({ prefix: "probe-" });
  try {
    await Deno.mkdir(`${base}/store`);
    for (const file of ["secret", "named", "store/object"]) await Deno.writeTextFile(`${base}/${file}`, file);
    await Deno.writeTextFile(`${base}/module.ts`, "export {};");
    using _socket = Deno.listen({ transport: "unix", path: `${base}/store/taskd.sock` });
    using _other = Deno.listen({ transport: "unix", path: `${base}/other.sock` });
    const socket = route === "socket" ? ["--socket", `${base}/store/taskd.sock`] : [];
    const main = new URL("./support/probe_main.ts", import.meta.url).pathname;
    const args = ["run", ...launchFlags(), main, "--json", "--store", "store", ...socket, ...words(command)];
    const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), { args, cwd: base }).output();
    const text = new TextDecoder().decode(stdout);
    assertEquals(code, 0, `${text}${new TextDecoder().decode(stderr)}`);
    return JSON.parse(text);
  } finally {
    await Deno.remove(base, { recursive: true });
  }
}

for (const command of COMMANDS) {
  for (const route of command.uses === "branches" ? ["store", "socket"] as const : ["store"] as const) {
    const how = command.uses === "branches" ? ` (on the ${route})` : "";
    Deno.test(`${command.name}${how} can do what it needs and is refused everything else`, async () => {
      const { inside, outside } = await probe(command, route);
      const allowed = Object.keys(inside).filter((attempt) => inside[attempt] === "done");
      assertEquals(allowed.toSorted(), expected(command, route).toSorted(), JSON.stringify(inside));
      for (const [attempt, outcome] of Object.entries({ ...inside, ...outside })) {
        if (!allowed.includes(attempt)) assertEquals(outcome, "refused", attempt);
      }
      assert(Object.keys(outside).length > 30);
    });
  }
}
