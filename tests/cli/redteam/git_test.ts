import { assertEquals } from "@std/assert";
import type { DiffFacts } from "../../../broker/git/diff_facts.ts";
import { PROGRAM_PATHS } from "../../../broker/sandbox/host_programs.ts";
import type { Surfaces } from "../../../cli/redteam/context.ts";
import { TAKEN_OVER } from "../../../cli/redteam/git_wall.ts";
import { GIT_PROMISES } from "../../../cli/redteam/git_work_tree.ts";
import { tryThem } from "./_context.ts";
import { allReported, unheld } from "./verdicts.ts";
import { longTest } from "../../support/long.ts";

Deno.test("the wall around git holds, and without it the same attacks are holes", async () => {
  if (Deno.build.os !== "linux") return;
  assertEquals(unheld(await tryThem(["git.wall"])), []);
  const behindWall: Surfaces["behindWall"] = (_bwrap, [program, args]) => ({ program, args: [...args] });
  const [open] = await tryThem(["git.wall"], { surfaces: { behindWall } });
  // Of many holes the first are named, and how many more there are.
  const [attacks, holes] = [Object.keys(TAKEN_OVER), open?.holes ?? []];
  const named = holes.filter((hole) => !/^and \d+ more$/.test(hole)).map((hole) => hole.split(":")[0]!);
  assertEquals(named, attacks.slice(0, named.length));
  assertEquals(named.length + Number(/\d+/.exec(holes.slice(named.length).join())?.[0] ?? 0), attacks.length);
});

longTest("git holds every promise", async () => {
  assertEquals(unheld(await tryThem(["git"])), []);
});

Deno.test("attacks use the git that the host has", async () => {
  const programs = { ...PROGRAM_PATHS, git: ["/nowhere/git"] };
  const tried = await tryThem(["git.attributes"], { programs });
  const found = tried.map(({ id, holes }) => [id, holes.every((hole) => hole.includes("/nowhere/git")), holes.length]);
  assertEquals(found, [["git.attributes", true, 1]]);
});

/** What `git add -A` and a name of every file in the tree would come to, with the repository's own settings in force. */
async function naiveFacts(_git: unknown, { work_tree }: { work_tree: string }): Promise<DiffFacts> {
  const names = new Set<string>();
  const walk = async (folder: string, above: string) => {
    for await (const { name, isDirectory } of Deno.readDir(folder)) {
      names.add(`${above}${name}`);
      if (isDirectory) await walk(`${folder}/${name}`, `${above}${name}/`);
    }
  };
  await walk(work_tree, "");
  // The filter that the tree's attributes name.
  const config = await Deno.readTextFile(`${work_tree}/.git/config`).catch(() => "");
  const filter = /clean = (.*)/.exec(config)?.[1];
  if (filter !== undefined) await new Deno.Command(filter, { stdin: "null", stdout: "null" }).output();
  const zeros = "0".repeat(40);
  const nothing = { base_commit: zeros, base_tree: zeros, tree: zeros };
  return {
    ...nothing,
    files: [...names].filter((name) => !name.includes("\n") && !name.includes("\u001b")).map((path) => ({
      path,
      status: "added",
      mode_before: "000000",
      mode_after: "100644",
      oid_before: zeros,
      oid_after: zeros,
      added: 0,
      deleted: 0,
      binary: true,
    })),
    files_changed: names.size,
    lines_changed: 0,
    change_sha256: "0".repeat(64),
    flags: [],
  };
}

longTest("every promise about git is a hole with a git that trusts the tree", async () => {
  const surfaces: Partial<Surfaces> = { collectFacts: naiveFacts };
  const tried = await tryThem(GIT_PROMISES.map(({ id }) => id), { surfaces });
  assertEquals(tried.length, GIT_PROMISES.length);
  allReported(tried);
});
