import { assert, assertEquals } from "@std/assert";
import { join } from "@std/path/join";
import { collectFacts } from "../../../broker/git/diff_facts.ts";
import { humanDiff, MAX_DIFF_BYTES } from "../../../broker/git/human_diff.ts";
import { GitBench, writeFiles } from "./bench.ts";
import { longTest } from "../../support/long.ts";

longTest("a diff of 30 MiB is counted and hashed whole, and shown in part", async () => {
  await using bench = await GitBench.start({ files: { "big.txt": "first\n" } });
  const line = `${"x".repeat(79)}\n`;
  const lines = (30 << 20) / line.length;
  const digests: string[] = [];
  for (const last of ["a\n", "b\n"]) {
    const staged = await bench.stage();
    await writeFiles(staged.work_tree, { "big.txt": `first\n${line.repeat(lines)}${last}` });
    const facts = await collectFacts(bench.git, staged);
    assertEquals(facts.lines_changed, lines + 1);
    digests.push(facts.change_sha256);
    const { bytes, truncated } = await humanDiff(bench.git, {
      git_dir: staged.git_dir,
      before: facts.base_tree,
      after: facts.tree,
    });
    assert(truncated && bytes.length <= MAX_DIFF_BYTES + 100);
    assert(
      new TextDecoder().decode(bytes.subarray(-100)).endsWith("cut here: the diff is longer than 4194304 bytes\n"),
    );
  }
  // They differ in their last byte, far behind what is shown.
  assert(digests[0] !== digests[1]);
});

Deno.test("the shown diff is git's, cut at a line, untouched by attributes", async () => {
  await using bench = await GitBench.start({ files: { "a.js": "1\n2\n", ".gitattributes": "*.js -diff\n" } });
  const staged = await bench.stage();
  await writeFiles(staged.work_tree, { "a.js": "1\nTWO\n" });
  const { base_tree, tree } = await collectFacts(bench.git, staged);
  const options = { git_dir: staged.git_dir, before: base_tree, after: tree };
  const whole = await humanDiff(bench.git, options);
  const text = new TextDecoder().decode(whole.bytes);
  assert(text.startsWith("diff --git a/a.js b/a.js\n") && text.endsWith("@@ -1,2 +1,2 @@\n 1\n-2\n+TWO\n"), text);
  assertEquals(whole.truncated, false);
  const exact = await humanDiff(bench.git, { ...options, max_bytes: whole.bytes.length });
  assertEquals(exact, whole);
  const cut = await humanDiff(bench.git, { ...options, max_bytes: 30 });
  assertEquals([cut.truncated, new TextDecoder().decode(cut.bytes)], [
    true,
    "diff --git a/a.js b/a.js\n\\ cut here: the diff is longer than 30 bytes\n",
  ]);
});

longTest("thousands of files are listed one by one", async () => {
  const count = 5_000;
  await using bench = await GitBench.start();
  const staged = await bench.stage();
  for (let at = 0; at < count; at++) {
    if (at % 100 === 0) await Deno.mkdir(join(staged.work_tree, `d${at / 100}`));
    Deno.writeTextFileSync(join(staged.work_tree, `d${Math.floor(at / 100)}`, `f${at}`), `${at}\n`);
  }
  const facts = await collectFacts(bench.git, staged);
  assertEquals([facts.files_changed, facts.lines_changed, facts.flags.length], [count, count, 0]);
});
