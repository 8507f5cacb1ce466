/**
 * Rule `taskd/words`: names, comments and texts use the field's words. What is out, and what to write instead, is in
 * `_out_words.ts`.
 */

import { findOutWords, PROPER_USES } from "./_out_words.ts";
import { projectPath } from "./_project_path.ts";

/** Files that name the words in order to refuse them. */
const OWN_FILES = new Set(["tests/lint/_out_words.ts", "tests/lint/plugin_test.ts"]);

/** The rule. */
export const words: Deno.lint.Rule = {
  create(context) {
    const path = projectPath(context.filename);
    if (OWN_FILES.has(path)) return {};
    const proper = PROPER_USES.filter(([beginning]) => path.startsWith(beginning)).map(([, word]) => word);
    return {
      Program() {
        for (const { index, text, write } of findOutWords(context.sourceCode.text)) {
          if (proper.includes(text.toLowerCase())) continue;
          context.report({
            range: [index, index + text.length],
            message: `"${text}" is not a word of this project`,
            hint: `Write ${write}; docs/glossary.md has the terms`,
          });
        }
      },
    };
  },
};
