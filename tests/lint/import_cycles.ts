/**
 * Rule `taskd/import-cycles`: no module of the product imports itself by way of others.
 *
 * Types count: a circle of types is as hard to take apart as one of values. An address formed with
 * `new URL(…, import.meta.url)` does not: it names a program to start, and loads nothing.
 */

import { isTestCode, projectPath, resolveSpecifier } from "./_project_path.ts";
import { visitSpecifiers } from "./_specifiers.ts";

const ROOT = new URL("../../", import.meta.url).pathname;

/** Specifiers of `import … from "…"`, `export … from "…"`, `import "…"` and `import("…")`. */
const SPECIFIERS = /\b(?:from|import)\s*\(?\s*["'`]([^"'`\s]+)["'`]/g;

const importsOnDisk = new Map<string, readonly string[]>();

/** Project paths that the file at `path` imports, as it stands on disk; none when it cannot be read. */
function importsOf(path: string): readonly string[] {
  const known = importsOnDisk.get(path);
  if (known !== undefined) return known;
  let text = "";
  try {
    // Comments have examples, which import the package by its name.
    text = Deno.readTextFileSync(ROOT + path).replaceAll(/^\s*(?:\/\*|\*|\/\/).*$/gm, "");
  } catch {
    // A module that is missing is the type checker's to report.
  }
  const found = Array.from(text.matchAll(SPECIFIERS), ([, specifier]) => resolveSpecifier(path, specifier!));
  const imports = [...new Set(found)].filter((target) => target !== undefined && target.endsWith(".ts")) as string[];
  importsOnDisk.set(path, imports);
  return imports;
}

/** The shortest way from `from` back to `to`, both included; undefined when there is none. */
function wayBack(from: string, to: string): string[] | undefined {
  const cameFrom = new Map<string, string | undefined>([[from, undefined]]);
  for (const path of cameFrom.keys()) {
    if (path === to) {
      const way: string[] = [];
      for (let at: string | undefined = path; at !== undefined; at = cameFrom.get(at)) way.unshift(at);
      return way;
    }
    for (const next of importsOf(path)) if (!cameFrom.has(next)) cameFrom.set(next, path);
  }
}

/** The rule. */
export const importCycles: Deno.lint.Rule = {
  create(context) {
    const from = projectPath(context.filename);
    if (isTestCode(from)) return {};
    return visitSpecifiers((specifier, node, how) => {
      const target = how === "import" ? resolveSpecifier(from, specifier) : undefined;
      const way = target === undefined ? undefined : wayBack(target, from);
      if (way === undefined) return;
      const message = `A circle of imports: ${[from, ...way].join(" -> ")}`;
      context.report({ node, message, hint: "Move what both need into a module of its own" });
    });
  },
};
