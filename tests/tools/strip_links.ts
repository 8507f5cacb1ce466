/**
 * Takes `links` out of a deno.json, so that `jsr:@std/...` resolves to the real JSR.
 * Run as a program it does so to the project's own deno.json and drops deno.lock,
 * which speaks of the links: the public CI builds once that way.
 *
 *     deno run -A --no-lock tests/tools/strip_links.ts
 *
 * @module
 */

import { join } from "@std/path/join";

/** Rewrites the configuration `file` without links, or with each link passed through `map`. */
export async function stripLinks(file: string, map?: (link: string) => string): Promise<void> {
  const { links = [], ...rest }: { links?: string[]; [key: string]: unknown } = JSON.parse(
    await Deno.readTextFile(file),
  );
  const config = map === undefined ? rest : { ...rest, links: links.map(map) };
  await Deno.writeTextFile(file, JSON.stringify(config, null, 2) + "\n");
}

if (import.meta.main) {
  const root = join(import.meta.dirname!, "../..");
  await stripLinks(join(root, "deno.json"));
  await Deno.remove(join(root, "deno.lock"));
}
