import { assertEquals } from "@std/assert";
import { join } from "@std/path/join";
import fc from "../../packages/fast_check.ts";
import { collectFacts } from "../../../broker/git/diff_facts.ts";
import { GitBench, plainGit } from "./bench.ts";
import { scaled, scaledTest } from "../../support/long.ts";

/** One thing that an honest task does to its files. */
type Step =
  | { do: "write"; path: string; content: string; executable: boolean }
  | { do: "remove"; path: string }
  | { do: "link"; path: string; target: string };

const path = fc.array(fc.constantFrom("a", "b", "c.log", "ü", "d e"), { minLength: 1, maxLength: 3 }).map((parts) =>
  parts.join("/")
);
const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({
    do: fc.constant("write" as const),
    path: fc.oneof(path, path.map((path) => `${path}/.gitignore`)),
    content: fc.constantFrom("", "x\n", "y", "*.log\n!a\n", "\r\n", "\0"),
    executable: fc.boolean(),
  }),
  fc.record({ do: fc.constant("remove" as const), path }),
  fc.record({ do: fc.constant("link" as const), path, target: path }),
);

async function take(work: string, step: Step): Promise<void> {
  const full = join(work, step.path);
  try {
    await Deno.remove(full, { recursive: true });
  } catch {
    // Nothing there, or nothing can be.
  }
  if (step.do === "remove") return;
  try {
    await Deno.mkdir(full.slice(0, full.lastIndexOf("/")), { recursive: true });
    if (step.do === "link") await Deno.symlink(step.target, full);
    else await Deno.writeTextFile(full, step.content, { createNew: true, mode: step.executable ? 0o755 : 0o644 });
  } catch {
    // A file is in the way of a directory: this step does nothing.
  }
}

scaledTest("of an honest work tree the broker makes the very tree that `git add -A` makes", async () => {
  await using bench = await GitBench.start({
    files: { "a/b": "1\n", "b/a/x": "2\n", "c.log": "3\n", "d e/ü": "4\n", "link@": "a", ".gitignore": "*.log\n" },
    prepare: (work) => plainGit(work, "add", "-f", "c.log"),
  });
  const property = fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 12 }), async (steps) => {
    const staged = await bench.stage();
    for (const step of steps) await take(staged.work_tree, step);
    const facts = await collectFacts(bench.git, staged);
    const clone = join(staged.git_dir, "..", "clone");
    await plainGit(bench.root, "clone", "--quiet", bench.origin, clone);
    const there = [`--git-dir=${join(clone, ".git")}`, `--work-tree=${staged.work_tree}`];
    await plainGit(staged.work_tree, ...there, "add", "-A");
    assertEquals(facts.tree, await plainGit(staged.work_tree, ...there, "write-tree"));
    const changed = await plainGit(
      staged.work_tree,
      ...there,
      "diff",
      "--cached",
      "--no-renames",
      "--numstat",
      "-z",
      "HEAD",
    );
    assertEquals(
      facts.files.map(({ path }) => path),
      changed.split("\0").slice(0, -1).map((line) => line.split("\t")[2]),
    );
  });
  await fc.assert(property, { numRuns: scaled({ short: 4, long: 20, longest: 200 }), seed: 4 });
});
