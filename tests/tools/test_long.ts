/**
 * The long tests: every file that has some, and of each only those.
 *
 *     deno task test:long            # all of them
 *     deno task test:long tests/s3   # those of a folder or a file
 */

import { LONG_MARK, LONG_VARIABLE } from "../support/long.ts";

const ROOT = new URL("../../", import.meta.url).pathname;
/** How a file names the module that defines long tests. */
const IMPORTS_LONG = /from "[./\w]*\/long\.ts"/;
const IMPORTS = /from "(\.{1,2}\/[^"]+)"/g;

function* testFiles(path: string): Generator<string> {
  if (Deno.statSync(path).isFile) return yield path;
  for (const { name, isDirectory } of Deno.readDirSync(path)) {
    if (isDirectory ? !name.startsWith(".") : name.endsWith("_test.ts")) yield* testFiles(`${path}/${name}`);
  }
}

/** A module's text; empty for a specifier that only stands in the text of a test. */
function textOf(path: string): string {
  try {
    return Deno.readTextFileSync(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return "";
    throw error;
  }
}

/** Whether a file of tests, or a suite that it calls, defines long ones. */
function hasLongTests(file: string): boolean {
  const text = textOf(file);
  if (IMPORTS_LONG.test(text)) return true;
  const folder = new URL(".", `file://${file}`);
  return Array.from(text.matchAll(IMPORTS), ([, specifier]) => new URL(specifier!, folder).pathname)
    .some((path) => path.startsWith(`${ROOT}tests/`) && IMPORTS_LONG.test(textOf(path)));
}

const places = Deno.args.length > 0 ? Deno.args : ["broker", "cli", "daemon", "lib", "tests"];
const files = places.flatMap((place) => [...testFiles(`${ROOT}${place}`)]).filter(hasLongTests);
const { code } = await new Deno.Command(Deno.execPath(), {
  args: ["test", "-A", "--no-prompt", "--parallel", "--filter", `/${LONG_MARK.replace(/[()]/g, "\\$&")}/`, ...files],
  cwd: ROOT,
  env: { [LONG_VARIABLE]: "1" },
}).spawn().status;
Deno.exit(code);
