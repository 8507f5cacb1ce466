/**
 * Rule `taskd/import-map-only`: packages are named once, with their version, in
 * deno.json. Only the small packages under std/, which stand in for JSR, may name a
 * registry in a specifier.
 *
 * @module
 */

import { projectPath } from "./_project_path.ts";
import { visitSpecifiers } from "./_specifiers.ts";

const REMOTE = /^(npm|jsr|https?|data):/;

/** The rule. */
export const importMapOnly: Deno.lint.Rule = {
  create(context) {
    if (projectPath(context.filename).startsWith("std/")) return {};
    return visitSpecifiers((specifier, node) => {
      if (REMOTE.test(specifier)) {
        const message = `"${specifier}" goes round the import map`;
        context.report({ node, message, hint: 'Pin the package under "imports" in deno.json and import it by name' });
      }
    });
  },
};
