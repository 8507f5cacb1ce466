/**
 * Random histories of tasks, crashes included, held to a model of a few lines: which entries there are,
 * in which order they would be evicted, what is in them, who hits and who misses.
 */

import { assertEquals } from "@std/assert";
import fc from "../../packages/fast_check.ts";
import type { CacheUse } from "../../../broker/cache/dependency_cache.ts";
import { BLOCK, fill, makeCacheWorld, request } from "./_cache.ts";
import { scaled, scaledTest } from "../../support/long.ts";

const QUOTA_BLOCKS = 8;

type Step =
  | { do: "begin"; repo: string }
  | { do: "commit"; task: number; blocks: number }
  | { do: "release"; task: number }
  | { do: "crash" };

const task = fc.nat({ max: 5 });
const STEPS: fc.Arbitrary<Step[]> = fc.array(
  fc.oneof(
    {
      weight: 4,
      arbitrary: fc.record({ do: fc.constant("begin" as const), repo: fc.constantFrom(..."abcd") }),
    },
    {
      weight: 4,
      arbitrary: fc.record({ do: fc.constant("commit" as const), task, blocks: fc.integer({ min: 1, max: 9 }) }),
    },
    { weight: 3, arbitrary: fc.record({ do: fc.constant("release" as const), task }) },
    { weight: 1, arbitrary: fc.record({ do: fc.constant("crash" as const) }) },
  ),
  { minLength: 1, maxLength: 40, size: "max" },
);

interface ModelTask {
  use: CacheUse;
  repo: string;
  content: string;
  hit: boolean;
  /** It keeps the entry of its repository from being evicted. */
  holds: boolean;
  committed: boolean;
}

/** What should be there. */
class Model {
  /** The longest unused first. */
  entries: { repo: string; blocks: number; content: string }[] = [];
  tasks: ModelTask[] = [];

  find(repo: string) {
    return this.entries.find((entry) => entry.repo === repo);
  }

  touch(repo: string): void {
    this.entries.sort((a, b) => Number(a.repo === repo) - Number(b.repo === repo));
  }

  /** Whether a committed task's key has an entry afterwards. */
  publish(task: ModelTask, blocks: number): boolean {
    if (blocks > QUOTA_BLOCKS) return false;
    if (this.find(task.repo) !== undefined) {
      this.touch(task.repo);
      return true;
    }
    const left = [...this.entries];
    const total = () => left.reduce((sum, entry) => sum + entry.blocks, blocks);
    const idle = left.filter(({ repo }) => !this.tasks.some((task) => task.holds && task.repo === repo));
    while (total() > QUOTA_BLOCKS && idle.length > 0) left.splice(left.indexOf(idle.shift()!), 1);
    if (total() > QUOTA_BLOCKS) return false;
    this.entries = [...left, { repo: task.repo, blocks, content: task.content }];
    return true;
  }
}

scaledTest("the cache is what its model says, whatever tasks and crashes do in whatever order", async () => {
  await fc.assert(
    fc.asyncProperty(STEPS, async (steps) => {
      await using world = await makeCacheWorld();
      let cache = await world.open(QUOTA_BLOCKS);
      const model = new Model();
      let number = 0;
      for (const step of steps) {
        await act(step, `content ${number++}`);
        await compare();
      }

      async function act(step: Step, content: string): Promise<void> {
        if (step.do === "begin") {
          if (model.tasks.length > 5) return;
          const { repo } = step;
          const use = await cache.use(request(repo));
          const entry = model.find(repo);
          assertEquals(use.participation, entry === undefined ? "miss" : "hit");
          if (entry !== undefined) {
            model.touch(repo);
            assertEquals(await Deno.readTextFile(`${use.setup_mount!.source}/file0`), entry.content);
          }
          const hit = entry !== undefined;
          model.tasks.push({ use, repo, content, hit, holds: hit, committed: false });
        } else if (step.do === "commit") {
          const task = model.tasks[step.task % Math.max(1, model.tasks.length)];
          if (task === undefined || task.committed) return;
          task.committed = true;
          // After a hit this changes the private copy alone.
          await fill(task.use, task.content, step.blocks);
          const { kept } = await task.use.commit();
          if (!task.hit) task.holds = model.publish(task, step.blocks);
          assertEquals(kept, task.holds);
          assertEquals(task.use.agent_mount !== undefined, task.holds);
        } else if (step.do === "release") {
          const [task] = model.tasks.splice(step.task % Math.max(1, model.tasks.length), 1);
          if (task === undefined) return;
          await task.use.release();
          if (task.holds) model.touch(task.repo);
        } else {
          cache.close();
          model.tasks = [];
          cache = await world.open(QUOTA_BLOCKS);
        }
      }

      async function compare(): Promise<void> {
        const entries = cache.entries();
        assertEquals(
          entries.map(({ repo, bytes }) => ({ repo: repo.slice(-1), blocks: bytes / BLOCK })),
          model.entries.map(({ repo, blocks }) => ({ repo, blocks })),
        );
        for (const { key, repo } of entries) {
          const { content, blocks } = model.find(repo.slice(-1))!;
          for (let index = 0; index < blocks; index++) {
            const file = `${world.root}/cache/entries/${key}/deps/file${index}`;
            assertEquals(await Deno.readTextFile(file), content);
          }
        }
        assertEquals(world.names("staging").length, model.tasks.filter(({ committed }) => !committed).length);
        assertEquals(world.names("trash"), []);
        assertEquals(world.warnings, []);
      }
    }),
    { numRuns: scaled({ short: 20, long: 120 }) },
  );
});
