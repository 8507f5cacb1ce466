import { assert, assertEquals, assertRejects } from "@std/assert";
import { systemClock } from "./clock.ts";
import { TaskdError } from "./errors.ts";
import { type ProcessOptions, runProcess } from "./process.ts";

function shell(script: string, options: Partial<ProcessOptions> = {}) {
  return runProcess("/bin/bash", {
    args: ["-c", script],
    env: {},
    cwd: "/",
    deadline_ms: 60_000,
    max_bytes: 1_000,
    clock: systemClock,
    attempted: "Cannot run",
    signal: undefined,
    ...options,
  });
}

/** Whether a process is there. */
async function lives(pid: number): Promise<boolean> {
  return (await new Deno.Command("/bin/kill", { args: ["-0", String(pid)], stderr: "null" }).output()).success;
}

/** Waits until a grandchild has written its id. */
async function begun(file: string): Promise<void> {
  while (!(await Deno.readTextFile(file)).endsWith("\n")) await systemClock.sleep(5);
}

/** Runs a script that starts a grandchild, which writes its id to `file`, and waits until both are gone. */
async function endsAll(end: (script: string, file: string) => Promise<unknown>): Promise<void> {
  const file = await Deno.makeTempFile();
  try {
    await end(`sleep 1000 & echo $! > ${file}; echo started; wait`, file);
    const pid = Number(await Deno.readTextFile(file));
    assert(pid > 0);
    for (let tries = 0; tries < 200 && await lives(pid); tries++) await systemClock.sleep(10);
    assertEquals(await lives(pid), false);
  } finally {
    await Deno.remove(file);
  }
}

Deno.test("a program gets the environment that is given, its input, and nothing else", async () => {
  const { code, stdout, stderr } = await shell("/usr/bin/env | /usr/bin/sort; /bin/cat; echo no >&2; exit 3", {
    env: { A: "1" },
    stdin: new TextEncoder().encode("in\n"),
  });
  const text = new TextDecoder().decode(stdout);
  assertEquals([code, stderr], [3, "no\n"]);
  assert(text.startsWith("A=1\n") && text.endsWith("in\n") && !text.includes("HOME"), text);
});

Deno.test("at the deadline a program ends with all that it started", async () => {
  await endsAll(async (script, file) => {
    const clock = { ...systemClock, sleep: (_ms: number) => begun(file) };
    const error = await assertRejects(() => shell(script, { deadline_ms: 5_000, clock }), TaskdError);
    assertEquals([error.code, error.message], ["timed_out", "Cannot run: no end after 5 s"]);
  });
});

Deno.test("an abort ends it with all that it started, and is the answer", async () => {
  await endsAll(async (script, file) => {
    const abort = new AbortController();
    const run = shell(script, { signal: abort.signal });
    await begun(file);
    abort.abort(new Error("enough"));
    await assertRejects(() => run, Error, "enough");
  });
  await assertRejects(() => shell("exit 0", { signal: AbortSignal.abort(new Error("before")) }), Error, "before");
});

Deno.test("an abort ends a program also where its group may not be killed", async () => {
  const { kill } = Deno;
  const abort = new AbortController();
  const run = shell("sleep 1000", { signal: abort.signal });
  Deno.kill = () => {
    throw new Deno.errors.PermissionDenied("Operation not permitted (os error 1)");
  };
  try {
    abort.abort(new Error("enough"));
    await assertRejects(() => run, Error, "enough");
  } finally {
    Deno.kill = kill;
  }
});

Deno.test("endless output is cut or refused at the limit, to the byte", async () => {
  const error = await assertRejects(() => shell("while :; do echo x; done"), TaskdError);
  assertEquals(error.code, "too_large");
  const { stdout, truncated } = await shell("while :; do echo x; done", { on_excess: "cut" });
  assertEquals([stdout.length, truncated], [1_000, true]);
  assertEquals((await shell("printf %01000d 0")).truncated, false);
});

Deno.test("endless complaints do not fill memory", async () => {
  const { stderr } = await shell("for n in {1..30000}; do echo complaint $n >&2; done");
  assert(stderr.length <= 65_536 && stderr.endsWith("complaint 30000\n"));
});

Deno.test("input that is not read is no failure, and a missing program is one", async () => {
  assertEquals((await shell("exit 0", { stdin: new Uint8Array(1 << 20) })).code, 0);
  const missing = runProcess("/nowhere/x", {
    args: [],
    env: {},
    cwd: "/",
    deadline_ms: 1_000,
    max_bytes: 1,
    clock: systemClock,
    attempted: "Cannot run",
    signal: undefined,
  });
  assertEquals((await assertRejects(() => missing, TaskdError)).code, "not_found");
});

Deno.test("output that is taken as it comes has no bound, is not kept, and an error ends the program", async () => {
  let taken = 0;
  const { stdout, truncated } = await shell("head -c 5000000 /dev/zero", { onOutput: ({ length }) => taken += length });
  assertEquals([taken, stdout.length, truncated], [5_000_000, 0, false]);
  await endsAll(async (script) => {
    const onOutput = () => {
      throw new TaskdError("internal", "not this");
    };
    await assertRejects(() => shell(script, { onOutput }), TaskdError, "not this");
  });
});

const MIB = 1 << 20;

Deno.test("limits hold a program and what it starts: processor time, memory, bytes of a file", async () => {
  const file = await Deno.makeTempFile();
  const fill = `head -c ${2 * MIB} /dev/zero > ${file}`;
  const hog = "exec perl -e '$x = \"x\" x (200 << 20); print length $x'";
  const rows: [string, Partial<ProcessOptions>, (code: number) => boolean][] = [
    ["while :; do :; done", { limits: { cpu_s: 1 } }, (code) => code === 128 + 24],
    ["(while :; do :; done); exit $?", { limits: { cpu_s: 1 } }, (code) => code === 128 + 24],
    [hog, { limits: { cpu_s: 60, memory_bytes: 100 * MIB } }, (code) => code !== 0],
    [hog, { limits: { cpu_s: 60, memory_bytes: 600 * MIB } }, (code) => code === 0],
    [fill, { limits: { cpu_s: 60, file_bytes: MIB } }, (code) => code === 128 + 25],
    [fill, { limits: { cpu_s: 60, file_bytes: 3 * MIB } }, (code) => code === 0],
    // A write fails then, and the program can say so; of a file without a byte nothing is held.
    [fill, { limits: { file_bytes: MIB, outlives_file_bytes: true } }, (code) => code === 1],
    [`echo x > ${file}`, { limits: { file_bytes: 0, outlives_file_bytes: true } }, (code) => code === 1],
    [`echo x | cat; : > ${file}`, { limits: { file_bytes: 0, outlives_file_bytes: true } }, (code) => code === 0],
    // The program has its own number, arguments and input, and no limit more.
    ['read line; [ "$line" = given ] && [ "$(ulimit -d)" = unlimited ]', {
      limits: { cpu_s: 60 },
      stdin: new TextEncoder().encode("given\n"),
    }, (code) => code === 0],
  ];
  for (const [script, options, isRight] of rows) {
    const { code, stderr } = await shell(script, options);
    assert(isRight(code), `${script}: ${code} ${stderr}`);
  }
  await Deno.remove(file);
});
