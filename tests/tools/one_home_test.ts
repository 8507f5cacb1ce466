import { assertEquals } from "@std/assert";

const ROOT = new URL("../../", import.meta.url);

/** What has one home, how a second one would be written, and the files that may: the home, and others with a reason. */
const HOMES: readonly { what: string; pattern: RegExp; files: Readonly<Record<string, string>> }[] = [
  {
    what: "parsing JSON that may be none: parseJson",
    pattern: /try \{\n(?:[^\n}]*\n){0,3}?[^\n}]*\bJSON\.parse\((?!JSON)/,
    files: {
      "lib/text/json.ts": "the home",
      "lib/store/salvage_ref.ts": "parts of a damaged text, among which a bad one is left out",
      "lib/text/strict_json.ts": "says at which character the text is wrong",
      "broker/task/rows.ts": "one of two things that may be wrong with a row",
    },
  },
  {
    what: "the text of what was thrown: messageOf",
    pattern: /instanceof Error \? \w+\.message : String\(/,
    files: {
      "lib/errors.ts": "the home",
      "broker/agent/sql_worker.ts": "starts from its own text, and imports nothing",
      "broker/web/pages/page.ts": "a page, which loads no module of lib/",
    },
  },
  { what: "joining bytes: concat", pattern: /\bBuffer\.concat\(/, files: {} },
  {
    what: "whether a name is taken: exists",
    pattern: /function exists(?:Sync)?\(/,
    files: { "lib/fs.ts": "the home" },
  },
  {
    what: "a wait with an end: withDeadline",
    pattern: /\.sleep\([^;]*?\)\.then\(\(\) => \{\s*(?:throw|reject|fail)/,
    files: {
      "lib/deadline.ts": "the home",
      "lib/backend/_s3_calls.ts": "two deadlines of one call, of which one begins when its bytes are sent",
    },
  },
];

Deno.test("what the library has once, no other module of the product has again", async () => {
  const args = ["ls-files", "lib", "daemon", "broker", "cli"];
  const { stdout } = await new Deno.Command("git", { args, cwd: ROOT }).output();
  const paths = new TextDecoder().decode(stdout).trim().split("\n").filter((path) =>
    /(?<!_test|_testing)\.ts$/.test(path)
  );
  const texts = await Promise.all(
    paths.map(async (path) => [path, await Deno.readTextFile(new URL(path, ROOT))] as const),
  );
  for (const { what, pattern, files } of HOMES) {
    const found = texts.filter(([, text]) => pattern.test(text)).map(([path]) => path);
    assertEquals(found.filter((path) => !(path in files)), [], what);
    assertEquals(Object.keys(files).filter((path) => !found.includes(path)), [], `no longer needed: ${what}`);
  }
});
