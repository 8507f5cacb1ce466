/**
 * The lines that start the program, each with exactly the permissions that the
 * command table asks for. deno.json and the README carry them; a test compares.
 *
 *     deno task launch-lines    # writes them where they belong, after the table has changed
 */

import { join } from "@std/path/join";
import { launchFlags } from "../../cli/table/launch_flags.ts";
import { MCP_SDK } from "../../cli/mcp/sdk.ts";
import { S3_SDK } from "../../lib/packages/s3_sdk.ts";

/** The lines, by where they stand. */
export interface LaunchLines {
  /** Task name to command, in deno.json. */
  tasks: Record<string, string>;
  /** Lines of the README. */
  readme: string[];
}

/** What compile does not find by itself: Workers' modules, which are named by URL, and packages that are loaded late. */
const INCLUDED: readonly string[] = [
  ...["broker", "helper", "local", "store"].map((worker) => `cli/run/workers/${worker}.ts`),
  "daemon/worker.ts",
  MCP_SDK,
  S3_SDK,
];

/** The lines as the command table has them now. */
export function launchLines(): LaunchLines {
  // A shell would look for files of that name, and some fail when there are none.
  const flags = launchFlags().map((flag) => flag.includes("*") ? `'${flag}'` : flag).join(" ");
  return {
    tasks: {
      taskd: `deno run ${flags} cli/main.ts`,
      demo: `deno run ${flags} cli/main.ts demo`,
      compile: `deno compile ${flags} ${
        INCLUDED.map((module) => `--include ${module}`).join(" ")
      } --output dist/taskd cli/main.ts`,
    },
    readme: [
      `deno install --global --name taskd ${flags} jsr:@taskd/taskd/cli`,
      // Not an installation: that copies deno.json, whose links are relative.
      `alias taskd="deno run --config $PWD/deno.json ${flags} $PWD/cli/main.ts"`,
    ],
  };
}

/** `source` with every line that begins like one of `lines`, up to its first permission, replaced by it. */
function replaceLines(source: string, lines: string[]): string {
  return source.split("\n").map((line) =>
    lines.find((expected) =>
      line.startsWith(expected.slice(0, expected.indexOf("--no-prompt"))) && line.endsWith(expected.split(" ").at(-1)!)
    ) ?? line
  ).join("\n");
}

if (import.meta.main) {
  const root = join(import.meta.dirname!, "../..");
  const { tasks, readme } = launchLines();
  const config = join(root, "deno.json");
  let text = await Deno.readTextFile(config);
  const before: Record<string, { command: string }> = JSON.parse(text).tasks;
  // In the text, so that the layout of the file stays as it is.
  for (const [name, command] of Object.entries(tasks)) {
    text = text.replace(JSON.stringify(before[name]!.command), JSON.stringify(command));
  }
  await Deno.writeTextFile(config, text);
  const file = join(root, "README.md");
  await Deno.writeTextFile(file, replaceLines(await Deno.readTextFile(file), readme));
}
