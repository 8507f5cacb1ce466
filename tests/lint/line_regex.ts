/**
 * Rule `taskd/line-regex`: no regular expression of the product has the flag `m`. With it `^` and `$` match at a carriage
 * return and at U+2028 and U+2029 too, which git and SQLite keep inside a line: what one wrote into a line would count as
 * lines. Text is split at its line feeds instead.
 */

import { projectPath } from "./_project_path.ts";

/** The rule. */
export const lineRegex: Deno.lint.Rule = {
  create(context) {
    const path = projectPath(context.filename);
    if (!/^(?:broker|cli|daemon|lib)\//.test(path) || path.endsWith("_test.ts")) return {};
    return {
      Literal(node) {
        const { regex } = node as { regex?: { flags: string } };
        if (!regex?.flags.includes("m")) return;
        context.report({
          node,
          message: "^ and $ with the flag m match at more than line feeds",
          hint: 'Split the text at "\\n" and look at each line',
        });
      },
    };
  },
};
