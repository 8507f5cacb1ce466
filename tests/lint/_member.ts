/**
 * Reading `object.property` out of a syntax tree, however it is spelled.
 */

/** The property that a member expression names: `a.b`, `a["b"]`; undefined when it is computed. */
export function memberName(node: Deno.lint.MemberExpression): string | undefined {
  if (!node.computed) return node.property.type === "Identifier" ? node.property.name : undefined;
  return node.property.type === "Literal" && typeof node.property.value === "string" ? node.property.value : undefined;
}

/** The names taken from identifier `object` by `const { a, b: c } = object`. */
export function destructured(node: Deno.lint.VariableDeclarator, object: string): string[] {
  if (node.init?.type !== "Identifier" || node.init.name !== object || node.id.type !== "ObjectPattern") return [];
  return node.id.properties.flatMap((property) =>
    property.type === "Property" && property.key.type === "Identifier" ? [property.key.name] : []
  );
}
