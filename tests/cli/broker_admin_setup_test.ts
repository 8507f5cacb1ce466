import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { existsSync } from "@std/fs/exists";
import { GH_PATHS } from "../../broker/git/gh.ts";
import { launchFlags } from "../../cli/table/launch_flags.ts";
import { configure, EMBEDDED, makeBrokerPlace } from "./support/broker_place.ts";
import { writeProgram } from "../support/programs.ts";

const SECRET = "sk-test-0123456789abcdef";

const UNATTENDED = ["setup", "--yes", "--runtime", "deno", "--agent", "agent_d", "--no-build-images"];
const ENDPOINT = ["--compat-url", "http://localhost:11434/v1", "--compat-model", "small"];

/** Every file below a directory, as text. */
function contents(directory: string): string {
  return [...Deno.readDirSync(directory)].map(({ name, isFile }) =>
    isFile ? Deno.readTextFileSync(`${directory}/${name}`) : contents(`${directory}/${name}`)
  ).join("\n");
}

// conformance: b1.init b8.modes b9.seeds
Deno.test("init makes a directory for its owner alone, and a second init changes nothing", async () => {
  await using place = await makeBrokerPlace();
  const directory = `${place.home}/.taskd`;
  const files = [`${directory}/config.yaml`, `${directory}/egress.yaml`];
  assertEquals(await place.json(["init"]), { ok: true, directory, created: files, kept: [] });
  assertEquals(Deno.statSync(directory).mode! & 0o777, 0o700);
  for (const file of files) assertEquals(Deno.statSync(file).mode! & 0o777, 0o600);
  await Deno.writeTextFile(files[0]!, "# mine\n");
  assertEquals(await place.json(["init"]), { ok: true, directory, created: [], kept: files });
  assertEquals(Deno.readTextFileSync(files[0]!), "# mine\n");
});

Deno.test("init works where settings are broken", async () => {
  await using place = await makeBrokerPlace();
  await configure(place, "runtime: [");
  assertEquals((await place.json(["init"])).created, [`${place.home}/.taskd/egress.yaml`]);
});

longTest("setup runs unattended, and again without changing anything", async () => {
  await using place = await makeBrokerPlace();
  const first = await place.json([...UNATTENDED, ...ENDPOINT]);
  assertEquals(first.changed, {
    runtime: "deno",
    default_agent: "agent_d",
    "compat.base_url": "http://localhost:11434",
    "compat.base_path": "/v1",
    "compat.model": "small",
  });
  assertEquals([first.ready, first.next], [true, "taskd start"]);
  const text = Deno.readTextFileSync(`${place.home}/.taskd/config.yaml`);
  assertStringIncludes(text, "# What runs sandboxes");
  const second = await place.json([...UNATTENDED, ...ENDPOINT]);
  assertEquals([second.changed, second.keys_stored], [{}, []]);
  assertEquals(Deno.readTextFileSync(`${place.home}/.taskd/config.yaml`), text);
});

Deno.test("setup changes only the given settings and keeps comments", async () => {
  await using place = await makeBrokerPlace();
  await configure(place, "# why podman was bad\nruntime: podman # really\ntask_budget_usd: 9\n");
  await place.json(["setup", "--non-interactive", "--runtime", "deno", "--no-build-images"]);
  const text = Deno.readTextFileSync(`${place.home}/.taskd/config.yaml`);
  assertEquals(text, "# why podman was bad\nruntime: deno # really\ntask_budget_usd: 9\n");
});

Deno.test("setup takes keys from stdin in the order of its flags and never prints them", async () => {
  await using place = await makeBrokerPlace();
  const flags = ["--key", "anthropic=-", "--key", "compat=-", "--json"];
  const { code, stdout, stderr } = await place.taskdWith(
    `${SECRET}\n${SECRET}-2\n`,
    ...UNATTENDED,
    ...ENDPOINT,
    ...flags,
  );
  assertEquals(code, 0, stderr);
  assertEquals(JSON.parse(stdout).keys_stored, ["VENDORA_API_KEY", "COMPAT_API_KEY"]);
  const file = `${place.home}/.taskd/api-keys.env`;
  assertEquals(Deno.statSync(file).mode! & 0o777, 0o600);
  assertEquals(Deno.readTextFileSync(file), `VENDORA_API_KEY=${SECRET}\nCOMPAT_API_KEY=${SECRET}-2\n`);
  assert(!(stdout + stderr).includes(SECRET));
  const others = contents(place.home).replace(Deno.readTextFileSync(file), "");
  assert(!others.includes(SECRET));
});

Deno.test("setup takes keys from a file, and refuses one that others can read", async () => {
  await using place = await makeBrokerPlace();
  const file = `${place.base}/keys`;
  await Deno.writeTextFile(file, `OTHER=1\nexport ANTHROPIC_API_KEY='${SECRET}'\n`, { mode: 0o600 });
  const done = await place.json([...UNATTENDED, ...ENDPOINT, "--key-file", file]);
  assertEquals(done.keys_stored, ["VENDORA_API_KEY"]);
  await Deno.chmod(file, 0o644);
  assertEquals((await place.json([...UNATTENDED, "--key-file", file], 1)).code, "denied");
});

Deno.test("setup refuses a key on the command line, and does not repeat it", async () => {
  await using place = await makeBrokerPlace();
  for (const word of [`vendor_a=${SECRET}`, SECRET]) {
    const { code, stdout, stderr } = await place.taskd("setup", "--yes", "--key", word);
    assertEquals(code, 2);
    assertStringIncludes(stderr, "others can see it there");
    assert(!(stdout + stderr).includes(SECRET));
  }
});

Deno.test("setup names the vendors when it is given another", async () => {
  await using place = await makeBrokerPlace();
  const { code, stderr } = await place.taskd("setup", "--yes", "--key", "vendor_z=-");
  assertEquals(code, 2);
  assertStringIncludes(stderr, "there is no such vendor");
  assertStringIncludes(stderr, "vendor_b (OpenAI)");
});

Deno.test("setup refuses unknown values before it changes anything", async () => {
  await using place = await makeBrokerPlace();
  for (const flags of [["--runtime", "qemu"], ["--agent", "agent_z"], ["--from", "thin-air"]]) {
    const refused = await place.json(["setup", "--yes", ...flags], 2);
    assertEquals(refused.code, "usage");
  }
  assertEquals([...Deno.readDirSync(place.home)], []);
});

Deno.test("setup writes no settings that would not load", async () => {
  await using place = await makeBrokerPlace();
  const refused = await place.json([...UNATTENDED, "--compat-url", "http://models.example.com"], 1);
  const config = `${place.home}/.taskd/config.yaml`;
  assertEquals(refused.code, "invalid_config");
  // No line of the file has what is refused, so none is named.
  assertStringIncludes(
    String(refused.error),
    `Cannot change ${config}: compat.base_url is "http://models.example.com", and`,
  );
  assertEquals(refused.hint, "Nothing was written: run taskd setup again with another answer");
  assert(!Deno.readTextFileSync(config).includes("models.example.com"));
});

Deno.test("setup reports a missing runtime and changes nothing", async () => {
  await using place = await makeBrokerPlace();
  const refused = await place.json(["setup", "--yes", "--runtime", "container"], 1);
  assertEquals(refused.code, "sandbox_failed");
  assert(!/^runtime:/m.test(Deno.readTextFileSync(`${place.home}/.taskd/config.yaml`)));
});

/**
 * A person at a terminal: waits for each text and then types the answer. Prints what the terminal showed.
 * argv: the program's words as JSON, the dialogue as JSON.
 */
const PTY = `
import json, os, pty, select, sys, termios, time
words, dialogue = json.loads(sys.argv[1]), json.loads(sys.argv[2])
pid, fd = pty.fork()
if pid == 0:
    os.execv(words[0], words)
shown, at, end = b"", 0, time.monotonic() + 60
while time.monotonic() < end:
    if not select.select([fd], [], [], 1)[0]: continue
    try: data = os.read(fd, 65536)
    except OSError: break
    if not data: break
    shown += data
    while dialogue and dialogue[0][0].encode() in shown[at:]:
        text, answer = dialogue.pop(0)
        at = shown.index(text.encode(), at) + len(text.encode())
        os.write(fd, answer.encode())
_, status = os.waitpid(pid, 0)
if termios.tcgetattr(fd)[3] & termios.ECHO == 0: sys.exit(98)
sys.stdout.buffer.write(shown)
sys.exit(os.waitstatus_to_exitcode(status) if not dialogue else 99)
`;
import { longTest } from "../support/long.ts";

/** Runs setup at a terminal of its own; 98 is a terminal left without echo, 99 a dialogue that was not finished. */
async function atTerminal(place: { home: string; base: string }, dialogue: readonly (readonly [string, string])[]) {
  const main = new URL("../../cli/main.ts", import.meta.url).pathname;
  const words = [Deno.execPath(), "run", ...launchFlags(), main, "setup", "--no-build-images"];
  const info = await new Deno.Command(Deno.execPath(), { args: ["info", "--json"] }).output();
  const { code, stdout, stderr } = await new Deno.Command("python3", {
    args: ["-c", PTY, JSON.stringify(words), JSON.stringify(dialogue)],
    env: {
      HOME: place.home,
      TMPDIR: place.base,
      DENO_DIR: JSON.parse(new TextDecoder().decode(info.stdout)).denoDir,
      NO_COLOR: "1",
    },
  }).output();
  return { code, shown: new TextDecoder().decode(stdout), errors: new TextDecoder().decode(stderr) };
}

const STEPS = [
  ["What runs sandboxes [auto]: ", "deno\n"],
  ["unless a task names another [agent_d]: ", "\n"],
  ["URL of the OpenAI-compatible endpoint: ", "http://localhost:11434/v1\n"],
  ["Its model: ", "small\n"],
] as const;

Deno.test("setup asks for each step at a terminal and does not show the key", async () => {
  await using place = await makeBrokerPlace();
  const { code, shown, errors } = await atTerminal(place, [...STEPS, ["(not shown): ", `${SECRET}\n`]]);
  assertEquals(code, 0, shown + errors);
  assert(!shown.includes(SECRET));
  assertMatch(shown, /Next: taskd start\r?\n$/);
  const config = Deno.readTextFileSync(`${place.home}/.taskd/config.yaml`);
  assertMatch(config, /^runtime: deno$/m);
  assertMatch(config, /^ {2}base_path: \/v1$/m);
  assertEquals(Deno.readTextFileSync(`${place.home}/.taskd/api-keys.env`), `COMPAT_API_KEY=${SECRET}\n`);
});

Deno.test("Ctrl-C at the key ends setup, restores the terminal and changes nothing", async () => {
  await using place = await makeBrokerPlace();
  const { code, shown, errors } = await atTerminal(place, [...STEPS, ["(not shown): ", `${SECRET}\x03`]]);
  assertEquals(code, 130, shown + errors);
  assert(!shown.includes(SECRET));
  const config = Deno.readTextFileSync(`${place.home}/.taskd/config.yaml`);
  assert(!/^runtime:/m.test(config));
});

Deno.test("doctor exits with 1 when a check fails, otherwise with 0, and shows no key", async () => {
  await using place = await makeBrokerPlace({ VENDORA_API_KEY: SECRET });
  const before = await place.taskd("doctor", "--json");
  assertEquals([before.code, JSON.parse(before.stdout).status], [1, "fail"]);
  await configure(place, EMBEDDED);
  const { code, stdout, stderr } = await place.taskd("doctor");
  assertEquals(code, 0, stdout);
  assertMatch(stdout, /^ok +config +valid; \d+ set in config\.yaml/m);
  assertMatch(stdout, /^ok +credentials vendor_a \(Anthropic\) +key of env:VENDORA_API_KEY$/m);
  assertMatch(stdout, /^warn +broker +not running\n +Run taskd start$/m);
  assert(!(stdout + stderr).includes(SECRET));
});

Deno.test("doctor names the place of a broken setting and still runs the other checks", async () => {
  await using place = await makeBrokerPlace();
  await configure(place, "runtime: podman\nnonsense: 1\n");
  const { code, stdout } = await place.taskd("doctor");
  assertEquals(code, 1);
  assertMatch(stdout, /^FAIL +config +.*config\.yaml:2:1/m);
  assertMatch(stdout, /^ok +git /m);
});

Deno.test("doctor names what another user could decide about, also above what it may inspect itself", async () => {
  await using place = await makeBrokerPlace({ VENDORA_API_KEY: SECRET });
  await configure(place, `${EMBEDDED}audit_root: ${place.base}/audit\n`);
  await Deno.mkdir(`${place.base}/elsewhere`);
  await Deno.symlink(`${place.base}/elsewhere`, `${place.base}/audit`);
  const linked = await place.taskd("doctor");
  assertEquals(linked.code, 1);
  assertMatch(linked.stdout, /^FAIL +home +.*\/audit: it is a link, not a directory\n +Name one of your own/m);
  await Deno.chmod(place.home, 0o777);
  const open = await place.taskd("doctor");
  assertEquals(open.code, 1);
  assertMatch(open.stdout, /^FAIL +home +Cannot use .*: other users can change it \(mode 0777\)\n +Run: chmod 755 /m);
  assert(!/Requires|NotCapable/.test(open.stdout), open.stdout);
});

Deno.test("a program of PATH is found and may be run; one that a repository has brought is not", async () => {
  const root = await Deno.makeTempDir();
  const folders = [`${root}/repo/bin`, `${root}/mine`];
  await Deno.mkdir(`${root}/repo/.git`, { recursive: true });
  for (const folder of folders) {
    await Deno.mkdir(folder, { mode: 0o755 });
    for (const name of ["gh", "notify-send"]) await writeProgram(`${folder}/${name}`, "#!/bin/sh\necho Logged in\n");
  }
  await using place = await makeBrokerPlace({ PATH: `${folders.join(":")}:${Deno.env.get("PATH")}` });
  await configure(place, EMBEDDED);
  const { stdout } = await place.taskd("doctor");
  assertStringIncludes(stdout, `${GH_PATHS.find((path) => existsSync(path)) ?? `${root}/mine/gh`}, logged in`);
  const { permissions: { read } } = await place.json(["start", "--print-permissions"]) as {
    permissions: { read: string[] };
  };
  assertEquals(read.filter((path) => path.startsWith(root)).sort(), [`${root}/mine/gh`, `${root}/mine/notify-send`]);
  await Deno.remove(root, { recursive: true });
});

longTest("a service file is written, printed and removed; another program's is left alone", async () => {
  await using place = await makeBrokerPlace();
  await configure(place, EMBEDDED);
  for (const manager of ["--systemd", "--launchd"]) {
    const { path } = await place.json(["service", "install", manager, "--no-start"]);
    const text = Deno.readTextFileSync(String(path));
    assertEquals((await place.taskd("service", "print", manager)).stdout, text);
    assertStringIncludes(text, Deno.execPath());
    assertEquals((await place.json(["service", "uninstall", manager])).path, path);
    assertEquals((await place.json(["service", "uninstall", manager], 1)).code, "not_found");
    await Deno.writeTextFile(String(path), "mine\n");
    assertEquals((await place.json(["service", "install", manager, "--no-start"], 1)).code, "already_exists");
    assertEquals((await place.json(["service", "uninstall", manager], 1)).code, "already_exists");
    assertEquals(Deno.readTextFileSync(String(path)), "mine\n");
  }
});

Deno.test("each command of the broker's owner has exactly the permissions that it needs", async () => {
  await using place = await makeBrokerPlace();
  await configure(place, EMBEDDED);
  const directory = `${place.home}/.taskd`;
  const socket = `${place.base}/taskd-${Deno.uid()}/taskd.sock`;
  const set = async (...words: string[]) =>
    (await place.json([...words, "--print-permissions"])).permissions as Record<
      string,
      string[]
    >;
  const none = { read: [], write: [], net: [], run: [], env: [], sys: [], ffi: [], import: [] };
  assertEquals(await set("init"), { ...none, read: [directory], write: [directory] });
  assertEquals(await set("stop"), {
    ...none,
    sys: ["uid"],
    read: [socket, `${directory}/daemon.lock`],
    write: [socket],
    net: [`unix:${socket}`],
    run: ["/bin/kill"],
  });
  const explain = await set("policy", "explain");
  assertEquals([explain.read, explain.write, explain.net, explain.run], [
    [directory, socket],
    [socket],
    [`unix:${socket}`],
    [],
  ]);
  const doctor = await set("doctor");
  // With the endpoint of the built-in agent's model, to see whether something listens.
  const ports = ["192.168.66.1:8088", "192.168.66.1:3128", "localhost:9"];
  assertEquals([doctor.write, doctor.net], [[socket], [`unix:${socket}`, ...ports]]);
  // The second line starts a sandbox that is tried out.
  const programs = ["git", "gh", "podman", "docker", "container", "prlimit"];
  const starters = ["bwrap", "systemd-run", "bash", "sh", "unshare"];
  const others = doctor.run!.filter((program) => ![...programs, ...starters].includes(program.split("/").at(-1)!));
  assertEquals(others, []);
  const service = await set("service", "print");
  assertEquals(service.net, []);
  const start = await set("start");
  const store = `unix:${directory}/store/taskd.sock`;
  assertEquals([start.net, start.run, start.ffi], [[`unix:${socket}`, "*", store], ["*"], []]);
  assert(start.write!.every((path) => path.startsWith(place.base)), String(start.write));
});
