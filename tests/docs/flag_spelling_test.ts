import { assertEquals } from "@std/assert";
import { COMMANDS, GLOBAL_FLAGS } from "../../cli/table/commands.ts";

const ROOT = new URL("../../", import.meta.url);

/** Where a flag has one dash, and why: a path, the flag, the reason. */
const ONE_DASH: readonly (readonly [path: string, flag: string, reason: string])[] = [
  ["broker/git/_scan.ts", "size", "an option of find"],
  ["daemon/metrics.ts", "ro-cache-budget", "a text of the contract"],
  ["docs/reference/metrics.md", "ro-cache-budget", "a text of the contract"],
  ["lib/backend/s3.ts", "at", "a negative number"],
];
/** What has one dash elsewhere: attributes of git, options of other programs, negative values. */
const ELSEWHERE = new Set(["agent", "all", "diff", "name"]);

const NAMES = [...new Set([...GLOBAL_FLAGS, ...COMMANDS.flatMap(({ flags }) => flags)].map(({ name }) => name))]
  .filter((name) => !ELSEWHERE.has(name));
const ONE_DASHED = new RegExp(`(?<![-\\w}/.])-(${NAMES.join("|")})(?![-\\w/])`, "g");
Deno.test("texts, comments and pages write flags with two dashes", async () => {
  const { stdout } = await new Deno.Command("git", { args: ["ls-files"], cwd: ROOT }).output();
  const paths = new TextDecoder().decode(stdout).split("\n")
    .filter((path) => /^(?:lib|daemon|broker|cli|docs)\/.*\.(?:ts|md)$|^[^/]+\.(?:ts|md)$/.test(path))
    .filter((path) => !/_test(?:ing)?\.ts$/.test(path));
  const found: string[] = [];
  for (const path of paths) {
    const text = await Deno.readTextFile(new URL(path, ROOT));
    for (const [dashed, flag] of text.matchAll(ONE_DASHED)) {
      if (!ONE_DASH.some(([where, name]) => where === path && name === flag)) found.push(`${path}: ${dashed}`);
    }
  }
  assertEquals(found, []);
});
