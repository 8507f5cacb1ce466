/**
 * Rule `taskd/import-map-only`: packages are named once, with their version, in
 * deno.json. Only the small packages under std/, which stand in for JSR, may name a
 * registry in a specifier; and lib/packages/, because modules of the library are also
 * imported by URL, where no import map applies. The rest of lib/ names no package.
 */

import { projectPath } from "./_project_path.ts";
import { visitSpecifiers } from "./_specifiers.ts";

const REMOTE = /^(?:(?:npm|jsr|https?|data|file|blob):|\/)/;
const BARE = /^[a-z@][^:]*$/;
const FOR_TESTS = /_test\.ts$|_testing\.ts$|\/(conformance|faulty)\.ts$/;

/** The rule. */
export const importMapOnly: Deno.lint.Rule = {
  create(context) {
    const path = projectPath(context.filename);
    if (path.startsWith("std/") || path.startsWith("lib/packages/")) return {};
    const has_import_map = !path.startsWith("lib/") || FOR_TESTS.test(path);
    return visitSpecifiers((specifier, node) => {
      if (!has_import_map && BARE.test(specifier)) {
        const message = `"${specifier}" cannot be resolved by a program that imports this module by URL`;
        context.report({ node, message, hint: "Use node: modules, or a module of lib/packages/" });
      }
      if (REMOTE.test(specifier)) {
        const message = `"${specifier}" goes round the import map`;
        context.report({ node, message, hint: 'Pin the package under "imports" in deno.json and import it by name' });
      }
    });
  },
};
