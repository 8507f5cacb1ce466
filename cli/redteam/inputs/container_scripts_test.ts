import { assertEquals } from "@std/assert";
import { ATTEMPTS_PRELUDE, firewallAttacks, networkAttacks, WALL_ATTACKS } from "./container_scripts.ts";

async function python(script: string): Promise<string> {
  const command = new Deno.Command("python3", { args: ["-"], stdin: "piped", stdout: "piped", stderr: "inherit" });
  await using program = command.spawn();
  const writer = program.stdin.getWriter();
  await writer.write(new TextEncoder().encode(script));
  await writer.close();
  return new TextDecoder().decode((await program.output()).stdout);
}

Deno.test("only an error of the system or a timeout counts as a refused attack", async () => {
  const cases: [action: string, got: string][] = [
    [`open("/proc/absent")`, "refused FileNotFoundError ENOENT"],
    [`(_ for _ in ()).throw(PermissionError(errno.EPERM, "x"))`, "refused PermissionError EPERM"],
    [`(_ for _ in ()).throw(TimeoutError())`, "refused TimeoutError"],
    [`subprocess.run(["sleep", "5"], timeout=0.01)`, "refused TimeoutExpired"],
    [`call("setrlimit", 99, None)`, "refused OSError EINVAL"],
    [`run("sh", "-c", "echo 'nft: Operation not permitted' >&2; exit 1")`, "refused PermissionError EPERM"],
    [`run("sh", "-c", "echo 'nft: syntax error' >&2; exit 1")`, `broken attack: RuntimeError('nft: syntax error\\n')`],
    [`run("absent-program")`, "broken attack: RuntimeError('there is no absent-program')"],
    [`absent(8088)`, `broken attack: NameError("name 'absent' is not defined")`],
    [`b""[0]`, "broken attack: IndexError('index out of range')"],
    [`None`, "DONE"],
    [`"reached"`, "reached"],
  ];
  const script = cases.map(([action], index) => `attempt("${index}", lambda: ${action})\n`).join("");
  const rows = (await python(ATTEMPTS_PRELUDE + script)).trim().split("\n").map((line) => JSON.parse(line));
  const got = new Map(rows.map(({ name, got }) => [name, got]));
  assertEquals(cases.map((_, index) => got.get(String(index))), cases.map(([, expected]) => expected));
});

Deno.test("every name that an attack uses is defined before the attack starts", async () => {
  const places = { gateway: "192.0.2.1", other_port: 1, host: "192.0.2.1", host_port: 1, sibling: "192.0.2.1" };
  // In the place of the one that starts the attack.
  const attempt = `
import builtins, dis
def attempt(name, action):
    for at in dis.get_instructions(action) if hasattr(action, "__code__") else ():
        if at.opname == "LOAD_GLOBAL" and at.argval not in globals() and not hasattr(builtins, at.argval):
            print(name, "uses", at.argval)
`;
  for (const script of [networkAttacks(places), firewallAttacks(places), WALL_ATTACKS]) {
    const out = await python(`${ATTEMPTS_PRELUDE}${attempt}${script}\nprint("end")`);
    assertEquals(out.split("\n").filter((line) => !line.startsWith("{")), ["end", ""]);
  }
  assertEquals(
    await python(`${ATTEMPTS_PRELUDE}${attempt}attempt("it", lambda: connect_from(1))`),
    "it uses connect_from\n",
  );
});
