/**
 * Every way in which one module can name another, brought to one shape, so that the import rules cannot be walked round
 * by a less common spelling. What cannot be read, because it is computed, is reported as such.
 */

import { memberName } from "./_member.ts";

/** What a visitor of specifiers receives. */
export interface OnSpecifier {
  /** A specifier, the node to report, and whether the module is imported or only its address formed. */
  (specifier: string, node: Deno.lint.Node, how: "import" | "address"): void;
}

/** The text of a literal, or of a template without expressions; undefined for anything else. */
function textOf(node: Deno.lint.Node | null | undefined): string | undefined {
  if (node?.type === "Literal" && typeof node.value === "string") return node.value;
  if (node?.type === "TemplateLiteral" && node.expressions.length === 0) return node.quasis[0]!.cooked;
  return undefined;
}

/** The specifier of which `node`, a property of `import.meta`, is a part: of a `new URL()` or an `import.meta.resolve()`. */
function addressed(node: Deno.lint.MemberExpression): Deno.lint.Node | undefined {
  const { parent } = node;
  if (parent.type === "CallExpression" && parent.callee === node) return parent.arguments[0];
  const isModuleUrl = parent.type === "NewExpression" && parent.callee.type === "Identifier" &&
    parent.callee.name === "URL" && parent.arguments[1] === node;
  return isModuleUrl ? parent.arguments[0] : undefined;
}

/**
 * A visitor that calls `onSpecifier` for imports, re-exports, `import()`, type imports and addresses of modules, and
 * `onUnreadable` for a specifier that is computed, or an address of this module that goes elsewhere.
 */
export function visitSpecifiers(
  onSpecifier: OnSpecifier,
  onUnreadable: (node: Deno.lint.Node) => void = () => {},
): Deno.lint.LintVisitor {
  const visit = (node: Deno.lint.Node | null | undefined, how: "import" | "address" = "import") => {
    const text = textOf(node);
    if (text !== undefined) onSpecifier(text, node!, how);
    return text !== undefined;
  };
  return {
    ImportDeclaration: (node) => void visit(node.source),
    ExportNamedDeclaration: (node) => void visit(node.source),
    ExportAllDeclaration: (node) => void visit(node.source),
    ImportExpression(node) {
      if (!visit(node.source)) onUnreadable(node);
    },
    TSImportType(node) {
      if (node.argument.type === "TSLiteralType") visit(node.argument.literal);
    },
    // new URL("./worker.ts", import.meta.url) and import.meta.resolve("./worker.ts"): how a worker names its module.
    MetaProperty({ meta, parent }) {
      if (meta.name !== "import") return;
      if (parent.type !== "MemberExpression") return onUnreadable(parent);
      if (memberName(parent) !== "main" && !visit(addressed(parent), "address")) onUnreadable(parent);
    },
  };
}
