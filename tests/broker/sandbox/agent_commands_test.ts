/**
 * Commands of the built-in agent, in real sandboxes: what they are for, where they end, and what they cannot do. What any
 * sandbox of bubblewrap keeps from a program is in bubblewrap_walls_test.ts and in `taskd redteam`.
 */

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { systemClock } from "../../../lib/clock.ts";
import { BubblewrapRuntime } from "../../../broker/sandbox/bubblewrap/bubblewrap_runtime.ts";
import { EMPTY_VIEW } from "../../../broker/sandbox/bubblewrap/host_view.ts";
import { listProcesses } from "../../../broker/sandbox/processes.ts";
import { bubblewrapTest, BWRAP } from "../../support/bubblewrap.ts";
import { BrokerBench } from "../engine/bench.ts";
import { ModelServer, type Scripted } from "./_model_server.ts";
import { OWNER, Place, processesOf } from "./_sandbox.ts";

/** A work folder whose agent may run commands. */
class Running extends Place {
  readonly notes: string[] = [];

  commands(): BubblewrapRuntime {
    return new BubblewrapRuntime({
      program: BWRAP,
      run_dir: this.root,
      view: EMPTY_VIEW,
      bounding: "none",
      deno_path: Deno.execPath(),
      owner: OWNER,
      env: () => undefined,
      clock: systemClock,
      reaches_nothing: true,
    });
  }

  /** Starts the agent, which does what the model says. */
  async start(model: ModelServer) {
    const runtime = this.runtime(undefined, this.commands());
    await runtime.prepare();
    const onNote = (text: string) => Promise.resolve(void this.notes.push(text));
    return await runtime.start(this.spec(model.url, { onNote }));
  }

  /** What the tools answered to those calls, the last of a run. */
  async answers(...calls: [tool: string, args: unknown][]): Promise<string[]> {
    await using model = new ModelServer([
      ...calls.map((call): Scripted => ({ calls: [call] })),
      { calls: [["finish", { summary: "done" }]] },
    ]);
    const end = await (await this.start(model)).wait();
    assertEquals(end.code, 0, JSON.stringify(this.lines));
    return model.answers();
  }
}

const run = (command: string, seconds?: number): [string, unknown] => [
  "run",
  { command, ...(seconds === undefined ? {} : { seconds }) },
];

bubblewrapTest("the built-in agent runs the tests, mends what fails, and every command is in the trace", async () => {
  await using bench = await BrokerBench.start({
    programs: { bubblewrap: [BWRAP] },
    files: {
      "sum.sh": "echo $(($1 - $2))\n",
      "test.sh": "test \"$(sh sum.sh 1 2)\" = 3 || { echo '1 + 2 is not 3'; exit 7; }\n",
    },
    script: [
      { calls: [run("sh test.sh")] },
      { calls: [["edit", { path: "sum.sh", old_text: "-", new_text: "+" }]] },
      { calls: [run("sh test.sh")] },
      { calls: [["finish", { summary: "it adds" }]] },
    ],
  });
  const { id } = await bench.submit();
  const { stage, reason } = await bench.reaches(id, "awaiting_approval");
  assertEquals(stage, "awaiting_approval", reason);
  const [failed, , passed] = bench.model.answers();
  assert(/^exit code 7 after \d+\.\d s\n1 \+ 2 is not 3\n$/.test(failed!), failed);
  assert(/^exit code 0 after /.test(passed!), passed);
  const prompt = bench.model.asked[0]!.body.messages[0]!.content!;
  assertStringIncludes(prompt, "run the tests that your change touches");
  assert(!prompt.includes("You cannot run programs"));
  const trace = (await Deno.readTextFile(`${bench.home}/.taskd/audit/${id}.jsonl`)).trim().split("\n");
  const notes = trace.map((line) => JSON.parse(line)).flatMap(({ type, src, text }) =>
    type === "note" && src === "broker" ? [String(text)] : []
  );
  assertEquals(notes.map((text) => text.replace(/\d+\.\d s/, "_ s")), [
    "command 1: sh test.sh",
    "command 1: exit code 7 after _ s",
    "command 2: sh test.sh",
    "command 2: exit code 0 after _ s",
  ]);
  assertEquals((await bench.engine.brief(id)).diff?.files_changed, 1);
});

Deno.test("without bubblewrap the built-in agent has no tool for commands", async () => {
  await using place = new Place();
  await using model = new ModelServer([{ calls: [run("id")] }, { calls: [["finish", { summary: "done" }]] }]);
  await (await place.runtime().start(place.spec(model.url))).wait();
  assertStringIncludes(model.answers()[0]!, "can run no programs");
  const { messages, tools } = model.asked[0]!.body as unknown as { messages: { content: string }[]; tools: unknown[] };
  assertStringIncludes(messages[0]!.content, "You cannot run programs");
  assert(!JSON.stringify(tools).includes('"run"'));
});

Deno.test("a bubblewrap that does not work is said, and the built-in agent has no tool for commands", async () => {
  await using bench = await BrokerBench.start({ programs: { bubblewrap: ["/bin/false"] } });
  const { id } = await bench.submit();
  await bench.reaches(id, "awaiting_approval");
  assertStringIncludes(bench.model.asked[0]!.body.messages[0]!.content!, "You cannot run programs");
});

bubblewrapTest("a command is held to its time, and what it leaves running ends with it", async () => {
  await using place = new Running();
  const marker = `sleep 9${Math.floor(Math.random() * 1e8)}`;
  const running = async () => (await listProcesses()).filter(({ command_line }) => command_line.startsWith(marker));
  const [late, left, stuck] = await place.answers(
    run(`echo begun; ${marker}`, 1),
    run(`(setsid ${marker} &) ; echo left`),
    run(`trap '' TERM HUP INT; while :; do :; done`, 1),
  );
  assertEquals(late, "ended after its 1 second\nbegun\n");
  assertEquals(left!.split("\n").slice(1), ["left", ""]);
  assert(stuck!.startsWith("ended after its 1 second"), stuck);
  assertEquals(await running(), []);
});

bubblewrapTest("links work in a command, and one that it makes leads the other tools nowhere", async () => {
  await using place = new Running();
  const secret = place.file("secret.txt", "a key of the host");
  place.file("work, it/real.txt", "real\n");
  await Deno.symlink("real.txt", `${place.work}/link.txt`);
  const [seen, made, read, written, listed, again] = await place.answers(
    run("cat link.txt"),
    run(`ln -s '${secret}' planted && ln -s / root && rm link.txt && ln -s planted link.txt && echo made`),
    ["read", { path: "planted" }],
    ["write", { path: `root${secret}`, content: "overwritten" }],
    ["list", { path: "." }],
    run("readlink planted link.txt"),
  );
  assertStringIncludes(seen!, "exit code 0");
  assertStringIncludes(seen!, "real\n");
  assertStringIncludes(made!, "made");
  assert(!read!.includes("a key of the host"), read);
  assertStringIncludes(read!, "Error");
  assertStringIncludes(written!, "Error");
  assertStringIncludes(listed!, `planted (link to ${JSON.stringify(secret)}, off limits)`);
  assertStringIncludes(again!, `${secret}\nplanted\n`);
  assertEquals(await Deno.readTextFile(secret), "a key of the host");
  assertEquals(await Deno.readLink(`${place.work}/link.txt`), "planted");
});

bubblewrapTest(
  "a command reaches neither the gateway, nor the host's listeners, files and processes",
  async () => {
    await using place = new Running();
    const key = place.file("key", "a key of the host");
    const sleeper = new Deno.Command("/bin/sleep", { args: ["600"] }).spawn();
    using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    const { port } = listener.addr as Deno.NetAddr;
    const attacks = (gateway_port: number) => [
      `cat '${key}'`,
      `kill -0 ${sleeper.pid}`,
      `bash -c 'exec 3<>/dev/tcp/127.0.0.1/${port}'`,
      `bash -c 'exec 3<>/dev/tcp/127.0.0.1/${gateway_port}'`,
      "bash -c 'exec 3<>/dev/tcp/127.0.0.1/8088'",
      "ls /run/taskd/gateway /run/taskd/proxy",
    ];
    try {
      await using model = new ModelServer([
        ...attacks(0).map((_, at) => (): Scripted => ({ calls: [run(attacks(Number(new URL(model.url).port))[at]!)] })),
        { calls: [["finish", { summary: "done" }]] },
      ]);
      // The control: beside a sandbox the first four succeed.
      for (const command of attacks(Number(new URL(model.url).port)).slice(0, 4)) {
        const { success } = await new Deno.Command("/bin/sh", { args: ["-c", command], stdout: "null" }).output();
        assert(success, command);
      }
      await (await place.start(model)).wait();
      const answers = model.answers();
      assertEquals(answers.length, attacks(0).length);
      for (const answer of answers) assert(/^exit code [1-9]/.test(answer), answer);
    } finally {
      sleeper.kill("SIGKILL");
      await sleeper.status;
    }
  },
);

bubblewrapTest("stopping the agent ends the command that runs, at once and whole", async () => {
  await using place = new Running();
  await using model = new ModelServer([{ calls: [run("echo $$ >pid; trap '' TERM; sleep 600 & wait; sleep 600")] }]);
  await using watcher = Deno.watchFs(place.work) as Deno.FsWatcher & AsyncDisposable;
  const sandbox = await place.start(model);
  for await (const { paths } of watcher) if (paths.some((path) => path.endsWith("/pid"))) break;
  assertEquals((await sandbox.stop()).reason, "stopped");
  assertEquals(await processesOf(place.task_id), []);
});

/** What a command can leave in a work tree to trip up what comes next, by the tool that meets it and what that says. */
const TRAPS = [
  ["mkfifo pipe", ["read", { path: "pipe" }], "is not a regular file"],
  [
    "mkfifo kept; rm -f a.txt; ln kept a.txt",
    ["edit", { path: "a.txt", old_text: "a", new_text: "b" }],
    "is not a regular",
  ],
  [
    "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"sock\")'",
    ["read", { path: "sock" }],
    "is not a reg",
  ],
  ["truncate -s 1T huge", ["read", { path: "huge" }], "has more than"],
  [`mkdir closed; ln -s /etc/passwd closed/l`, ["read", { path: "closed/l" }], "symbolic link"],
  [
    `python3 -c 'import os; os.mkdir(b"\\xff"); os.symlink("/etc/passwd", b"\\xff/l"); os.mkdir("\\ufffd")'`,
    ["read", { path: "\ufffd/l" }],
    "There is no file",
  ],
  [
    "mkdir -p .git/hooks; echo 'touch /pwned' >.git/hooks/post-index-change",
    ["read", { path: ".git/config" }],
    "Error",
  ],
] as const;

bubblewrapTest("what hostile commands leave behind stops neither the tools nor the gate, which names it", async () => {
  await using bench = await BrokerBench.start({
    programs: { bubblewrap: [BWRAP] },
    files: { "a.txt": "a\n", "b.txt": "b\n" },
    script: [
      ...TRAPS.flatMap(([command, call]): Scripted[] => [{ calls: [run(command)] }, { calls: [[call[0], call[1]]] }]),
      { calls: [run("yes | head -c 20000000")] },
      { calls: [["write", { path: "b.txt", content: "c\n" }]] },
      { calls: [["finish", { summary: "done" }]] },
    ],
  });
  const { id } = await bench.submit();
  const { stage, reason } = await bench.reaches(id, "awaiting_approval");
  assertEquals(stage, "awaiting_approval", reason);
  const answers = bench.model.answers();
  for (const [at, [command, , says]] of TRAPS.entries()) {
    assert(/^exit code 0 /.test(answers[2 * at]!), `${command}: ${answers[2 * at]}`);
    assertStringIncludes(answers[2 * at + 1]!, says, command);
  }
  assertStringIncludes(answers[2 * TRAPS.length]!, "[left out: 19");
  const { diff, flags } = await bench.engine.brief(id);
  const named = flags.flatMap(({ category, paths }) => paths.map(({ path }) => `${category} ${path}`));
  for (
    const flag of ["special_file pipe", "special_file sock", "special_file a.txt", "left_out huge", "nested_git .git"]
  ) {
    assert(named.includes(flag), `${flag}: ${named}`);
  }
  assert(named.some((flag) => flag === "symlink closed/l"), `${named}`);
  assertEquals(diff?.files.map(({ path, status }) => `${status} ${path}`), [
    "deleted a.txt",
    "modified b.txt",
    "added closed/l",
    "added \ufffdff/l",
  ]);
});
