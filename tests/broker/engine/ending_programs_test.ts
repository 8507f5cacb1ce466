/**
 * Every program that the broker starts for a task ends at once with the task, and with the broker. Each row is one that
 * hangs: a program stands in its place, and sleeps.
 */

import { assert, assertEquals, assertRejects } from "@std/assert";
import { ContainerProgram } from "../../../broker/sandbox/container_program.ts";
import { DesktopNotifier } from "../../../broker/engine/notify.ts";
import { Gh } from "../../../broker/git/gh.ts";
import { parseRepo } from "../../../broker/git/repo_url.ts";
import { listProcesses } from "../../../broker/sandbox/processes.ts";
import { systemClock } from "../../../lib/clock.ts";
import { writeProgram } from "../../support/programs.ts";
import { BrokerBench } from "./bench.ts";

/** How no other process sleeps. */
const SLEEP = `sleep ${86_400 + Math.random()}`;

/** A program that sleeps where its arguments match a pattern of the shell, and is the real one elsewhere. */
class Sleeper implements AsyncDisposable {
  readonly path: string;
  readonly #folder: string;

  private constructor(folder: string, name: string) {
    this.#folder = folder;
    this.path = `${folder}/${name}`;
  }

  static async make(name: string, pattern: string, real: string): Promise<Sleeper> {
    const sleeper = new Sleeper(await Deno.makeTempDir(), name);
    await Deno.writeTextFile(sleeper.#log, "");
    // With a child of its own, as git has its helpers.
    await writeProgram(
      sleeper.path,
      `#!/bin/sh\ncase " $* " in\n${pattern}) echo x >> ${sleeper.#log}; ${SLEEP} & exec ${SLEEP};;\nesac\n${real}\n`,
    );
    return sleeper;
  }

  get #log(): string {
    return `${this.#folder}/log`;
  }

  /** Waits until it sleeps for the `count`th time. */
  async sleeps(count: number): Promise<void> {
    while ((await Deno.readTextFile(this.#log)).length < 2 * count) await systemClock.sleep(5);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Deno.remove(this.#folder, { recursive: true });
  }
}

/** Processes of this one that sleep, when none should. A process that was killed may be there for a moment. */
async function sleepers(): Promise<string[]> {
  let own: string[] = [];
  for (const ends = Date.now() + 10_000; Date.now() < ends; await systemClock.sleep(5)) {
    own = (await listProcesses()).flatMap(({ command_line }) => command_line === SLEEP ? [SLEEP] : []);
    if (own.length === 0) break;
  }
  return own;
}

/** Calls of git by the stage that they hang in. */
const STAGING = ["ls-remote", "init", "fetch", "rev-parse --verify", "ls-tree", "read-tree", "checkout-index"];
const COLLECTING = ["read-tree -m", "ls-files", "diff-files", "update-index", "write-tree", "diff-tree", "cat-file"];
const PUSHING = ["commit-tree", "cat-file commit", "push"];

for (const [stage, commands] of [["staging", STAGING], ["collecting", COLLECTING]] as const) {
  for (const command of commands) {
    Deno.test(`a git that hangs in ${stage} ends with the task, and with the broker: ${command}`, async () => {
      await using git = await Sleeper.make("git", `*" ${command} "*`, 'exec /usr/bin/git "$@"');
      await using bench = await BrokerBench.start({ programs: { git: [git.path] } });
      const { id } = await bench.submit();
      await git.sleeps(1);
      assertEquals((await bench.engine.view(id)).stage, stage);
      await bench.engine.kill(id, "too slow", { via: "page", who: "ada" });
      assertEquals((await bench.reaches(id)).outcome, "cancelled");
      assertEquals([await sleepers(), bench.staged()], [[], []]);
      const { id: other } = await bench.submit();
      await git.sleeps(2);
      await bench.broker.stop();
      assertEquals([await sleepers(), bench.staged()], [[], []]);
      await Deno.remove(git.path);
      await writeProgram(git.path, '#!/bin/sh\nexec /usr/bin/git "$@"\n');
      await bench.serve();
      assertEquals((await bench.engine.view(other)).stage, "done");
    });
  }
}

for (const command of PUSHING) {
  Deno.test(`a git that hangs in pushing ends with the broker, and the next one lands it: ${command}`, async () => {
    await using git = await Sleeper.make("git", `*" ${command} "*`, 'exec /usr/bin/git "$@"');
    await using bench = await BrokerBench.start();
    const { id } = await bench.submit();
    const { gate } = await bench.reaches(id, "awaiting_approval");
    await bench.broker.stop();
    // It would hang before the gate as well.
    await bench.serve({ git: [git.path] }).catch(() => {});
    await approveWhile(bench, git, id, gate!.diff_sha256);
    await bench.broker.stop();
    assertEquals(await sleepers(), []);
    await bench.serve();
    if (bench.engine.pending().length > 0) {
      await bench.engine.approve(id, { diff_sha256: gate!.diff_sha256, acknowledge: [] });
    }
    const done = await bench.reaches(id);
    assertEquals([done.stage, done.outcome], ["done", "pushed"], done.reason);
    assertEquals((await bench.branches()).get(`agent/${id}`), done.pushed!.commit);
  });
}

Deno.test("a start that hangs on what waits at a gate ends with its signal, and the gate waits on", async () => {
  await using git = await Sleeper.make("git", '*" rev-list "*', 'exec /usr/bin/git "$@"');
  await using bench = await BrokerBench.start();
  const { id } = await bench.submit();
  await bench.reaches(id, "awaiting_approval");
  await bench.broker.stop();
  const ending = new AbortController();
  const started = bench.serve({ git: [git.path] }, ending.signal);
  await git.sleeps(1);
  ending.abort(new Error("terminated"));
  await (await started).finished;
  assertEquals(await sleepers(), []);
  await bench.serve();
  assertEquals(bench.engine.pending().map((task) => task.id), [id]);
});

/** Approves until the call hangs, which what is checked before may do, too: that approval is refused. */
async function approveWhile(bench: BrokerBench, git: Sleeper, id: string, diff_sha256: string): Promise<void> {
  const approved = bench.engine.approve(id, { diff_sha256, acknowledge: [] });
  approved.catch((error) => assertEquals(error.code, "stopping"));
  await git.sleeps(1);
}

/** Programs beside git, each called as the broker calls it. */
const OTHERS: Record<string, (path: string, signal: AbortSignal) => Promise<unknown>> = {
  podman: (path, signal) =>
    new ContainerProgram({ path, env: () => undefined, clock: systemClock }).ask(["run", "x"], { signal }),
  gh: (path, signal) =>
    new Gh({ path, cwd: "/", env: {} }).createPullRequest({
      repo: parseRepo("https://git.example.com/acme/app"),
      head: "agent/x",
      base: "main",
      title: "x",
      body: "",
      signal,
    }),
  ps: (path, signal) => listProcesses({ path, signal }),
};

for (const [name, call] of Object.entries(OTHERS)) {
  Deno.test(`another program that hangs ends with what it is for: ${name}`, async () => {
    await using sleeper = await Sleeper.make(name, "*", "exit 1");
    const ending = new AbortController();
    const called = call(sleeper.path, ending.signal);
    await sleeper.sleeps(1);
    ending.abort(new Error("ended"));
    await assertRejects(() => called, Error, "ended");
    assertEquals(await sleepers(), []);
  });
}

Deno.test("a desktop that does not answer ends with the broker", async () => {
  await using notify = await Sleeper.make("notify-send", "*", "exit 1");
  const notifier = new DesktopNotifier({
    enabled: true,
    env: () => undefined,
    log: () => {},
    clock: systemClock,
    programs: [{ paths: [notify.path], args: (...texts) => texts }],
  });
  notifier.notify({ task_id: "a".repeat(32), repo: "x", instruction: "y", stage: "awaiting_approval" });
  await notify.sleeps(1);
  await notifier.close();
  assertEquals(await sleepers(), []);
});

Deno.test("every program is started in the one place that can end it, or stands in a table", async () => {
  /** Where else, and why that cannot outlive what it is for. */
  const ELSEWHERE: Record<string, string> = {
    "lib/process.ts": "the place itself",
    "lib/fs.ts": "cp of one file by its blocks, which either shares them or fails",
    "lib/descriptors.ts": "a shell's own word at the start",
    "lib/boot.ts": "cp of one small file at the start",
    "lib/client/mod.ts": "an example",
    "broker/sandbox/deno_runtime.ts": "the sandbox itself, which is supervised",
    "broker/sandbox/processes.ts": "the sandbox itself, which is supervised",
    "broker/sandbox/images/build.ts": "building images, in front of a person",
  };
  const root = new URL("../../../", import.meta.url).pathname;
  const found: string[] = [];
  const look = async (folder: string) => {
    for await (const { name, isDirectory } of Deno.readDir(root + folder)) {
      const path = `${folder}/${name}`;
      if (isDirectory) await look(path);
      else if (/(?<!_test)\.ts$/.test(name)) {
        if ((await Deno.readTextFile(root + path)).includes("new Deno.Command(")) found.push(path);
      }
    }
  };
  for (const folder of ["broker", "lib"]) await look(folder);
  assertEquals(found.sort(), Object.keys(ELSEWHERE).sort());
  assert(found.length > 0);
});
