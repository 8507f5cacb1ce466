/**
 * Every way in which one module can name another, brought to one shape, so that
 * the import rules cannot be walked round by a less common spelling.
 */

/** Receives each specifier, the node to report, and whether the module is imported or only its address formed. */
export type OnSpecifier = (specifier: string, node: Deno.lint.Node, how: "import" | "address") => void;

/** A visitor that calls `onSpecifier` for imports, re-exports, `import()`, type imports and worker URLs. */
export function visitSpecifiers(onSpecifier: OnSpecifier): Deno.lint.LintVisitor {
  const visit = (node: Deno.lint.Node | null | undefined, how: "import" | "address" = "import") => {
    if (node?.type === "Literal" && typeof node.value === "string") onSpecifier(node.value, node, how);
  };
  return {
    ImportDeclaration: (node) => visit(node.source),
    ExportNamedDeclaration: (node) => visit(node.source),
    ExportAllDeclaration: (node) => visit(node.source),
    ImportExpression: (node) => visit(node.source),
    TSImportType(node) {
      if (node.argument.type === "TSLiteralType") visit(node.argument.literal);
    },
    // new URL("./worker.ts", import.meta.url): how a worker names its module.
    NewExpression(node) {
      const [specifier, base] = node.arguments;
      const isModuleUrl = node.callee.type === "Identifier" && node.callee.name === "URL" &&
        base?.type === "MemberExpression" && base.object.type === "MetaProperty";
      if (isModuleUrl) visit(specifier, "address");
    },
  };
}
