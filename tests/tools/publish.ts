/**
 * Publishes the package after a rehearsal, or rehearses only.
 *
 *     deno task publish --dry-run    # works without JSR at hand
 *     deno task publish              # for real; further arguments go to `deno publish`
 *
 * What is shipped is the list under `publish` of deno.json. The stand-ins under std/ are packages of the workspace that
 * are not published: where they are imported, the package names JSR.
 */

import { join } from "@std/path/join";

const ROOT = join(import.meta.dirname!, "../..");

/** What must not be in the list of files, whatever deno.json says. */
const FORBIDDEN = /^(?!(?:lib|broker|cli|daemon)\/|(?:LICENSE|README\.md|deno\.json|mod\.ts)$)|_test(?:ing)?\.ts$/;

/** A rehearsal. */
export interface Rehearsal {
  success: boolean;
  /** What the runtime printed. */
  text: string;
  /** Paths of the files that would be shipped. */
  files: string[];
}

/** Rehearses `deno publish` in `root`, with nothing done for it: what is listed is what a plain call ships. */
export async function rehearse(root: string = ROOT, args: readonly string[] = []): Promise<Rehearsal> {
  const { success, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["publish", "--dry-run", "--allow-dirty", ...args],
    cwd: root,
    env: { NO_COLOR: "1" },
    stdin: "null",
  }).output();
  const text = new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr);
  const start = `file://${await Deno.realPath(root)}/`;
  const listed = [...text.matchAll(/^ +(file:\/\/\S+) \(/gm)].map((match) => match[1]!);
  return { success, text, files: listed.map((url) => url.startsWith(start) ? url.slice(start.length) : url) };
}

/** The paths of a list that must not be in it. */
export function forbiddenFiles(files: readonly string[]): string[] {
  return files.filter((file) => FORBIDDEN.test(file));
}

if (import.meta.main) {
  const { success, text, files } = await rehearse(ROOT, Deno.args.filter((arg) => arg !== "--dry-run"));
  console.log(text.trimEnd());
  const wrong = forbiddenFiles(files);
  for (const file of wrong) console.error(`must not be published: ${file}`);
  if (!success || files.length === 0 || wrong.length > 0) Deno.exit(1);
  if (!Deno.args.includes("--dry-run")) {
    const child = new Deno.Command(Deno.execPath(), { args: ["publish", ...Deno.args], cwd: ROOT }).spawn();
    Deno.exit((await child.status).code);
  }
}
