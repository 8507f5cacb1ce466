/**
 * Publishes the package, or rehearses it.
 *
 *     deno task publish --dry-run    # works without JSR at hand
 *     deno task publish              # for real; further arguments go to `deno publish`
 *
 * The package is made from a copy of the tree without std/. Those stand-ins for JSR
 * packages lie inside the tree, so a publish from the tree itself would ship them.
 * For the rehearsal the copy links to them from outside; for the real thing the
 * links are gone and `jsr:@std/...` resolves to JSR.
 *
 * @module
 */

import { join } from "@std/path/join";
import { stripLinks } from "./strip_links.ts";

/** What the package is never made from. Dot files, coverage and the like are left behind with them. */
const LEFT_BEHIND = new Set(["std", "tests", "docs", "coverage", "dist", "node_modules", "deno.lock"]);

/** What must not be in the list of files, whatever deno.json says. */
const FORBIDDEN = /(^|\/)(std|tests|\.ci|\.github)\/|_test\.ts$/;

async function run(program: string, args: string[], cwd?: string): Promise<{ success: boolean; text: string }> {
  const { success, stdout, stderr } = await new Deno.Command(program, {
    args,
    ...(cwd === undefined ? {} : { cwd }),
    env: { NO_COLOR: "1" },
    stdin: "null",
  }).output();
  return { success, text: new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr) };
}

/** Copies what the package is made of from `root` to the new directory `stage`. */
async function copyPackage(root: string, stage: string): Promise<void> {
  await Deno.mkdir(stage);
  for await (const entry of Deno.readDir(root)) {
    if (entry.name.startsWith(".") || LEFT_BEHIND.has(entry.name)) continue;
    const { success, text } = await run("cp", ["-R", join(root, entry.name), stage]);
    if (!success) throw new Error(`Cannot copy ${entry.name} for publishing: ${text}`);
  }
}

/** Rehearses in `stage` and checks the list of files. */
async function rehearse(root: string, stage: string, args: string[]): Promise<boolean> {
  const linked = (link: string) => join(root, link);
  await stripLinks(join(stage, "deno.json"), linked);
  const { success, text } = await run(Deno.execPath(), ["publish", "--allow-dirty", ...args], stage);
  console.log(text.replaceAll(`file://${await Deno.realPath(stage)}/`, "").trimEnd());
  const files = [...text.matchAll(/^ +file:\/\/(\S+) \(/gm)].map((match) => match[1]!);
  const wrong = files.filter((file) => FORBIDDEN.test(file));
  for (const file of wrong) console.error(`must not be published: ${file}`);
  return success && files.length > 0 && wrong.length === 0;
}

/** Publishes for real from `stage`, with the terminal and the tokens of the caller. */
async function publish(stage: string, args: string[]): Promise<boolean> {
  await stripLinks(join(stage, "deno.json"));
  const child = new Deno.Command(Deno.execPath(), { args: ["publish", "--allow-dirty", ...args], cwd: stage }).spawn();
  return (await child.status).success;
}

const root = join(import.meta.dirname!, "../..");
const scratch = await Deno.makeTempDir({ prefix: "taskd-publish-" });
const stage = join(scratch, "package");
let done = false;
try {
  await copyPackage(root, stage);
  done = Deno.args.includes("--dry-run") ? await rehearse(root, stage, Deno.args) : await publish(stage, Deno.args);
} finally {
  await Deno.remove(scratch, { recursive: true });
}
Deno.exit(done ? 0 : 1);
