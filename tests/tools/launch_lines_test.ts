import { assert, assertEquals } from "@std/assert";
import { join } from "@std/path/join";
import config from "../../deno.json" with { type: "json" };
import { launchLines } from "./launch_lines.ts";

const REMEDY = "run `deno task launch-lines`";

Deno.test("deno.json starts and compiles the program with the permissions of the command table", () => {
  const tasks: Record<string, { command: string }> = config.tasks;
  for (const [name, command] of Object.entries(launchLines().tasks)) {
    assertEquals(tasks[name]?.command, command, REMEDY);
  }
});

Deno.test("the README installs the program with the permissions of the command table", async () => {
  const readme = await Deno.readTextFile(join(import.meta.dirname!, "../../README.md"));
  for (const line of launchLines().readme) assert(readme.split("\n").includes(line), `${line}: ${REMEDY}`);
  assertEquals(readme.match(/^(deno install|alias taskd).*$/gm)?.length, launchLines().readme.length);
});

Deno.test("every launch line refuses to prompt and grants neither everything nor native code", () => {
  const { tasks, readme } = launchLines();
  for (const line of [...Object.values(tasks), ...readme]) {
    assert(line.includes(" --no-prompt "), line);
    // Within a kind nothing can be listed before the call is known: each narrows itself, as the permission tests prove.
    assert(!/ (-A|--allow-all|--allow-ffi|--allow-import)\b/.test(line), line);
  }
});
