/**
 * The agent's tools and what is collected of its work tree agree about what `.git` is.
 */

import { assertEquals, assertThrows } from "@std/assert";
import { parsePath, ToolError } from "../agent/work_tree.ts";
import { hasGitComponent, rawPath } from "./_records.ts";
import { isGitName } from "../../lib/text/git_name.ts";

const ENDINGS = ["", ".", " ", ". .", ":x", " :x", ".:x", ". :x", ":a\nb", "::$INDEX_ALLOCATION"];
const SPELLINGS = [".git", ".GIT", ".Git", ".g\u200cit", "\ufeff.git", "git~1", "GIT~2", "git~10"]
  .flatMap((name) => ENDINGS.map((ending) => name + ending));

Deno.test("the agent and the collected tree refuse git's folder in every spelling", () => {
  for (const name of SPELLINGS) {
    assertEquals(isGitName(name), true, JSON.stringify(name));
    for (const path of [name, `a/${name}/config`, `a\\${name}`]) {
      assertThrows(() => parsePath(path), ToolError, "off limits", JSON.stringify(path));
      assertEquals(hasGitComponent(rawPath(path)), true, JSON.stringify(path));
    }
  }
});

Deno.test("names that only resemble git's folder are free", () => {
  for (
    const name of [".gitignore", ".github", "git", "a.git", ".git~1", "git~", "git~1a", ".git x", ". git", "x:.git"]
  ) {
    assertEquals(isGitName(name), false, name);
    assertEquals(parsePath(`./a//${name}/`), ["a", name]);
    assertEquals(hasGitComponent(rawPath(`a/${name}`)), false, name);
  }
});
