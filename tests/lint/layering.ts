/**
 * Rule `taskd/layering`: dependencies point one way, cli -> daemon | broker -> lib;
 * the two daemons do not know each other; inside a part, a room imports only from floors
 * below its own; a file whose name begins with `_` belongs to its folder; product code
 * never imports test code. A specifier that cannot be read is refused, except where a reason is given.
 */

import { folderOf, isTestCode, projectPath, resolveSpecifier } from "./_project_path.ts";
import { roomObjection } from "./_rooms.ts";
import { visitSpecifiers } from "./_specifiers.ts";

/** Where a specifier is computed, or this module's address put to another use, and why. */
const COMPUTED: Readonly<Record<string, string>> = {
  "cli/main.ts": "its own address, by which the program starts itself",
  "cli/mcp/sdk.ts": "a package that is loaded late",
  "cli/redteam/hostile_agent.ts": "imports that a sandbox must refuse",
  "cli/table/_branch_flags.ts": "folders of the package, as permissions",
  "lib/version.ts": "asks whether it came from a registry",
  "lib/packages/s3_sdk.ts": "a package that is loaded late",
};

/** What each part of the product may import from. */
const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = {
  "mod.ts": ["lib"],
  cli: ["cli", "daemon", "broker", "lib", "deno.json"],
  daemon: ["daemon", "lib", "deno.json"],
  broker: ["broker", "lib", "deno.json"],
  lib: ["lib", "deno.json"],
  std: ["std"],
};

/** The top-level folder or file that a project path belongs to. */
function partOf(path: string): string {
  return path.split("/", 1)[0]!;
}

/** Why `from` may not import `target`; undefined when it may. */
function objection(from: string, target: string): string | undefined {
  const name = target.slice(target.lastIndexOf("/") + 1);
  if (name.startsWith("_") && folderOf(target) !== folderOf(from)) return `${target} is private to its folder`;
  if (isTestCode(from)) return undefined;
  if (isTestCode(target)) return `${target} is test code`;
  const part = partOf(from);
  const allowed = MAY_IMPORT[part];
  if (allowed === undefined || allowed.includes(partOf(target))) return undefined;
  return `${part} may import only from ${allowed.join(", ")}, not ${target}`;
}

/** The rule. */
export const layering: Deno.lint.Rule = {
  create(context) {
    const from = projectPath(context.filename);
    const report = (message: string | undefined, node: Deno.lint.Node, hint: string) => {
      if (message !== undefined) context.report({ node, message, hint });
    };
    return visitSpecifiers((specifier, node) => {
      const target = resolveSpecifier(from, specifier);
      if (target === undefined) return;
      report(objection(from, target), node, "Dependencies point one way: cli -> daemon | broker -> lib");
      if (isTestCode(from)) return;
      report(roomObjection(from, target), node, "Move what is needed down, or what needs it up (tests/lint/_rooms.ts)");
    }, (node) => {
      if (isTestCode(from) || MAY_IMPORT[partOf(from)] === undefined || from in COMPUTED) return;
      report("Which module this names cannot be read", node, "Write the specifier as a literal");
    });
  },
};
