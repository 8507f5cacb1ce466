import { assert, assertEquals } from "@std/assert";
import { collectFacts } from "../../../broker/git/diff_facts.ts";
import { FLAG_CATEGORIES } from "../../../broker/git/flags.ts";
import { GitBench, writeFiles } from "./bench.ts";

const PAGE = await Deno.readTextFile(new URL("../../../docs/explanation/approval.md", import.meta.url));

Deno.test("docs/explanation/approval.md lists the categories as they are", () => {
  const [, list = ""] = /<!-- categories -->\n([^]*)<!-- end of categories -->/.exec(PAGE) ?? [];
  const rows = [...list.replaceAll(/\n {2,}/g, " ").matchAll(/^- `(\w+)`: (.*)$/gm)].map((
    [, name, text],
  ) => [name!, text!]);
  assertEquals(rows, Object.entries(FLAG_CATEGORIES));
});

Deno.test("the command in docs/explanation/approval.md computes the digest that an approval names", async () => {
  const [command] = /^ {4}\{ printf[^]*?sha256sum$/m.exec(PAGE)!;
  await using bench = await GitBench.start({ files: { "a": "a\n", "gone": "g\n" } });
  const staged = await bench.stage();
  await writeFiles(staged.work_tree, { "a": "b\n", "new\nline": "n\n" });
  await Deno.remove(`${staged.work_tree}/gone`);
  const facts = await collectFacts(bench.git, staged);
  const { stdout } = await new Deno.Command("/bin/bash", {
    args: ["-c", command],
    cwd: staged.git_dir,
    env: { BASE: facts.base_commit, BASE_TREE: facts.base_tree, TREE: facts.tree, GIT_DIR: staged.git_dir },
  }).output();
  assert(new TextDecoder().decode(stdout).startsWith(facts.change_sha256));
});
