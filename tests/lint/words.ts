/**
 * Rule `taskd/words`: names, comments and texts use the field's words. What is out, and what to write instead, is in
 * `_out_words.ts`.
 */

import { findOutWords } from "./_out_words.ts";
import { projectPath } from "./_project_path.ts";

/** Files that name the words in order to refuse them. */
const OWN_FILES = new Set(["tests/lint/_out_words.ts", "tests/lint/plugin_test.ts"]);

/** The rule. */
export const words: Deno.lint.Rule = {
  create(context) {
    const path = projectPath(context.filename);
    if (OWN_FILES.has(path)) return {};
    return {
      Program() {
        for (const { index, text, write } of findOutWords(context.sourceCode.text, path)) {
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
