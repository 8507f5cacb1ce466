import { assert, assertEquals } from "@std/assert";
import { Buffer } from "node:buffer";
import { pathText } from "../../../lib/text/characters.ts";
import { collectFacts } from "../../../broker/git/diff_facts.ts";
import { cutFiles, humanDiff } from "../../../broker/git/human_diff.ts";
import { parseDiff } from "../../../broker/web/pages/diff.ts";
import { scaled, scaledTest } from "../../support/long.ts";
import { SeededRandom } from "../../support/writers/random.ts";
import { makeOddTree, oddTree, TOO_LARGE_BYTES } from "./odd_trees.ts";
import { GitBench } from "./bench.ts";

scaledTest("each file of a tree of odd names is in the change or flagged as left out", async () => {
  for (let seed = 1; seed <= scaled({ short: 1, long: 30, longest: 300 }); seed++) {
    await using bench = await GitBench.start();
    const staged = await bench.stage();
    const files = oddTree(new SeededRandom(seed), 60);
    await makeOddTree(staged.work_tree, files);
    const facts = await collectFacts(bench.git, { ...staged, max_file_bytes: TOO_LARGE_BYTES });
    const hex = (raw: string) => Buffer.from(raw, "latin1").toString("hex");
    const { stdout } = await bench.git.run(["ls-tree", "-r", "-z", "--name-only", facts.tree], {
      repository: { git_dir: staged.git_dir },
      attempted: "list",
      signal: undefined,
    });
    const listed = Buffer.from(stdout).toString("latin1").split("\0").filter((path) =>
      path !== "" && path !== "README.md"
    );
    const kept = files.filter(({ kind, git }) => !git && (kind === "file" || kind === "link"));
    assertEquals(listed.map(hex).sort(), kept.map(({ raw }) => hex(raw)).sort(), `seed ${seed}`);
    assertEquals(facts.files.map(({ path }) => path).sort(), kept.map(({ raw }) => pathText(raw)).sort());
    const flagged = (category: string) =>
      facts.flags.filter((flag) => flag.category === category).map(({ path }) => path);
    const expected = (kind: string) =>
      files.filter((file) => file.kind === kind && !file.git).map(({ raw }) => pathText(raw));
    const beyondGit = (path: string) => files.some(({ raw, git }) => !git && pathText(raw) === path);
    assertEquals(flagged("left_out").filter(beyondGit).sort(), expected("large").sort(), `seed ${seed}`);
    assertEquals(flagged("special_file").filter(beyondGit).sort(), expected("pipe").sort(), `seed ${seed}`);
    assertEquals(flagged("symlink").sort(), expected("link").sort(), `seed ${seed}`);
    const left = new Set(facts.flags.map(({ path }) => path));
    for (const { raw } of files.filter(({ git }) => git)) {
      const parts = pathText(raw).split("/");
      assert(parts.some((_, at) => left.has(parts.slice(0, at + 1).join("/"))), `seed ${seed}: ${JSON.stringify(raw)}`);
    }
    const places = kept.flatMap(({ raw }) => [raw, ...raw.includes("/") ? [raw.split("/")[0]!] : []]);
    const fold = (raw: string) => pathText(raw).toLowerCase().normalize("NFC");
    for (const { raw } of kept) {
      const own = raw.split("/").map((_, at, parts) => parts.slice(0, at + 1).join("/"));
      const twin = places.find((place) => !own.includes(place) && own.some((part) => fold(part) === fold(place)));
      if (twin !== undefined) {
        assert(flagged("case_collision").includes(pathText(raw)), `seed ${seed}: ${raw}, ${twin}`);
      }
    }
    const diff = await humanDiff(bench.git, { git_dir: staged.git_dir, before: facts.base_tree, after: facts.tree });
    const shown = parseDiff(new TextDecoder().decode(diff.bytes)).files.map(({ path }) => path);
    assertEquals(shown.sort(), kept.map(({ raw }) => pathText(raw)).sort(), `seed ${seed}`);
    assertEquals(cutFiles(facts.files, diff), []);
  }
});

Deno.test("a long name of replacement characters is collected like any other", async () => {
  await using bench = await GitBench.start();
  const staged = await bench.stage();
  const name = "\ufffd".repeat(80);
  await Deno.writeTextFile(`${staged.work_tree}/${name}`, "odd\n");
  const facts = await collectFacts(bench.git, { ...staged, max_file_bytes: TOO_LARGE_BYTES });
  assertEquals(facts.files.length, 1);
});
