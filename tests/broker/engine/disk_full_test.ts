import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { TaskdError } from "../../../lib/errors.ts";
import { VirtualClock } from "../../support/clock.ts";
import { fillDisk, makeRoom } from "../../support/full_disk.ts";
import { mount, type Mounted, whyNotMountable } from "../../support/mounts.ts";
import type { Asked, Scripted } from "../../support/model_server.ts";
import { serveGit } from "../git/git_server.ts";
import { BrokerBench, until } from "./bench.ts";
import { longTest } from "../../support/long.ts";

const why = await whyNotMountable("tmpfs");

/** A small disk that has the audit directory, and can be filled. */
class SmallDisk implements AsyncDisposable {
  readonly #mounted: Mounted;

  constructor(mounted: Mounted) {
    this.#mounted = mounted;
  }

  get audit_root(): string {
    return `${this.#mounted.directory}/audit`;
  }

  /** Leaves no block free. */
  fill(): void {
    fillDisk(`${this.#mounted.directory}/ballast`);
  }

  free(): void {
    makeRoom(`${this.#mounted.directory}/ballast`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#mounted[Symbol.asyncDispose]();
  }
}

/** Fills the block that the trace of a task has begun, which a full disk leaves to it; meanwhile its agent waits. */
async function fillBlock(bench: BrokerBench): Promise<void> {
  const task = bench.engine.tasks.live(bench.engine.tasks.list()[0]!.id)!;
  // No row that ends a task is as short as these. One that fails with others that it was queued with proves nothing yet.
  for (let failed = 0; failed < 3;) {
    failed = await task.append({ type: "note", text: "x" }).then(() => 0, () => failed + 1);
  }
}

/** Makes a change, and reads it often while `fill` leaves no room for that. */
function chatty(fill: () => Promise<void>, ends: () => void): (asked: Asked) => Promise<Scripted> {
  return async ({ body }) => {
    const turns = body.messages.filter(({ role }) => role === "assistant").length;
    if (turns === 0) return { calls: [["write", { path: "hello.txt", content: "hello\n" }]] };
    if (turns === 1) {
      await fill();
      return { calls: Array.from({ length: 60 }, () => ["read", { path: "hello.txt" }]) };
    }
    ends();
    return { calls: [["finish", { summary: "done" }]] };
  };
}

for (const end of ["comes to its end", "is killed"] as const) {
  Deno.test({
    name: `a disk that is full while a task ${end}: the end and all of its spend are written when there is room${why}`,
    ignore: why !== "",
    async fn() {
      await using disk = new SmallDisk(await mount("tmpfs", 4));
      const clock = new VirtualClock();
      let spent = 0;
      await using bench = await BrokerBench.start({
        clock,
        config: `audit_root: ${disk.audit_root}\nmax_concurrent_tasks: 1\n`,
        script: [chatty(async () => {
          disk.fill();
          await fillBlock(bench);
        }, () => {
          if (end === "is killed") void bench.engine.kill(bench.engine.tasks.list()[0]!.id, "enough");
        })],
      });
      const { id } = await bench.submit();
      const forget = bench.engine.onSpend((_, { requests }) => spent = requests);
      await until(() => bench.lines.some((line) => line.includes("trace_failed")));
      forget();
      assertEquals((await bench.engine.view(id)).stage === "done", false);
      disk.free();
      await until(async () => {
        clock.advance(5_000);
        await new Promise((resolve) => setTimeout(resolve, 10));
        return (await bench.engine.view(id)).stage === "done";
      });
      const view = await bench.engine.view(id);
      assertEquals([view.outcome, view.spend?.requests], [end === "is killed" ? "cancelled" : "agent_failed", spent]);
      assert(view.trace.intact);
      assertEquals(bench.staged(), []);
    },
  });
}

Deno.test({
  name: `a kill is answered that comes too late for a task whose end a full disk keeps from being written${why}`,
  ignore: why !== "",
  async fn() {
    await using disk = new SmallDisk(await mount("tmpfs", 4));
    const clock = new VirtualClock();
    await using bench = await BrokerBench.start({
      clock,
      config: `audit_root: ${disk.audit_root}\n`,
      script: [chatty(async () => {
        disk.fill();
        await fillBlock(bench);
      }, () => {})],
    });
    const { id } = await bench.submit();
    await until(() => bench.lines.some((line) => line.includes("trace_failed")));
    const answer = assertRejects(() => bench.engine.kill(id, "enough"), TaskdError);
    clock.advance(10_000);
    disk.free();
    const { code, message } = await answer;
    assertEquals([code, message], [
      "unavailable",
      `Cannot end the task ${id}: it leaves running, and that is not written yet`,
    ]);
    await until(async () => {
      clock.advance(5_000);
      await new Promise((resolve) => setTimeout(resolve, 10));
      return (await bench.engine.view(id)).stage === "done";
    });
    assertEquals((await assertRejects(() => bench.engine.kill(id, "enough"), TaskdError)).code, "wrong_state");
  },
});

Deno.test({
  name: `a disk that is full when a push has arrived: the task is pushed as soon as that can be written${why}`,
  ignore: why !== "",
  async fn() {
    await using disk = new SmallDisk(await mount("tmpfs", 4));
    const clock = new VirtualClock();
    await using bench = await BrokerBench.start({ clock, config: `audit_root: ${disk.audit_root}\n` });
    let id = "";
    const fillUp = async () => {
      disk.fill();
      // Also the block that the trace has begun.
      for (;;) await bench.engine.tasks.live(id)!.append({ type: "note", text: "x".repeat(50) });
    };
    await using server = await serveGit(bench.git.root, ({ url }) => {
      if (url.endsWith("/git-receive-pack")) fillUp().catch(() => {});
      return "pass";
    });
    id = (await bench.submit({ repo: `${server.origin}/acme/app.git` })).id;
    const { gate } = await bench.reaches(id, "awaiting_approval");
    await bench.engine.approve(id, { diff_sha256: gate!.diff_sha256, acknowledge: [] });
    await until(() => bench.lines.some((line) => line.includes("cannot go on with task")));
    assert((await bench.branches()).has(`agent/${id}`));
    assertEquals((await bench.engine.view(id)).stage, "pushing");
    disk.free();
    clock.advance(60_000);
    assertEquals((await bench.reaches(id)).outcome, "pushed");
  },
});

longTest({
  name: `a disk that is full before a task: it is refused, holds no slot, and the next one is taken${why}`,
  ignore: why !== "",
  async fn() {
    await using disk = new SmallDisk(await mount("tmpfs", 4));
    await using bench = await BrokerBench.start({
      config: `audit_root: ${disk.audit_root}\nmax_concurrent_tasks: 1\nglobal_max_tasks: 1\n`,
    });
    disk.fill();
    const refused = await assertRejects(() => bench.submit({ instruction: "x".repeat(9_000) }), TaskdError);
    assertEquals(refused.code, "no_space");
    assertStringIncludes(refused.message, "No space left");
    assertEquals([bench.engine.tasks.size, bench.engine.ceiling().starts], [0, 0]);
    disk.free();
    assertEquals((await bench.pushed()).outcome, "pushed");
  },
});
