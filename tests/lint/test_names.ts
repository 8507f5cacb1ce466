/**
 * Rule `taskd/test-names`: a test's name, its subject and then its behaviour, has at most 90 characters.
 */

import { memberName } from "./_member.ts";
import { projectPath } from "./_project_path.ts";

const MAX_CHARACTERS = 90;
/** Functions of this project that define a test, beside `Deno.test`: `pageTest`, `longTest`. */
const DEFINER = /^[a-z]+Test$/;

/** What stands for `name` in a test's definition. */
function nameIn({ properties }: Deno.lint.ObjectExpression): Deno.lint.Node | undefined {
  const found = properties.find((each) =>
    each.type === "Property" && each.key.type === "Identifier" && each.key.name === "name"
  );
  return found?.type === "Property" ? found.value : undefined;
}

/** The rule. */
export const testNames: Deno.lint.Rule = {
  create(context) {
    if (!projectPath(context.filename).endsWith("_test.ts")) return {};
    return {
      CallExpression({ callee, arguments: [first] }) {
        const defines = callee.type === "Identifier"
          ? DEFINER.test(callee.name)
          : callee.type === "MemberExpression" && callee.object.type === "Identifier" &&
            callee.object.name === "Deno" && memberName(callee) === "test";
        if (!defines) return;
        const name = first?.type === "ObjectExpression" ? nameIn(first) : first;
        if (name?.type !== "Literal" || typeof name.value !== "string") return;
        if (name.value.length <= MAX_CHARACTERS) return;
        context.report({
          node: name,
          message: `A test's name has ${name.value.length} characters, more than ${MAX_CHARACTERS}`,
          hint: "Name the subject, then the behaviour, and leave the conditions to the test",
        });
      },
    };
  },
};
