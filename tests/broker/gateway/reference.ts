/**
 * Writes the part of docs/reference/gateway.md that lists what each route takes, from the tables of the gateway.
 * `deno run -A tests/broker/gateway/reference.ts` brings the page up to date; a test fails while it is not.
 */

import { TABLES } from "../../../broker/gateway/fields/mod.ts";
import type { ObjectShape, Shape, Table } from "../../../broker/gateway/fields/shapes.ts";
import { ROUTES } from "../../../broker/gateway/routes.ts";

const BEGIN = "<!-- reference: written by tests/broker/gateway/reference.ts -->";
const END = "<!-- end of reference -->";

/** The page. */
export const PAGE = new URL("../../../docs/reference/gateway.md", import.meta.url);

/** The page with its reference brought up to date. */
export function withReference(page: string): string {
  const begin = page.indexOf(BEGIN);
  const end = page.indexOf(END);
  if (begin < 0 || end < begin) throw new Error("docs/reference/gateway.md has lost the marks of its reference");
  return `${page.slice(0, begin + BEGIN.length)}\n\n${sections().join("\n\n")}\n\n${page.slice(end)}`;
}

function sections(): string[] {
  const shown = new Map<Table, string>();
  return Object.entries(TABLES).flatMap(([lane, tables]) =>
    ROUTES[lane as keyof typeof TABLES].flatMap(({ name }) => {
      const table = tables[name];
      if (!table) return [];
      const title = `### ${lane}: ${name}`;
      const same = shown.get(table);
      shown.set(table, `${lane}: ${name}`);
      return [same === undefined ? `${title}\n\n${section(table)}` : `${title}\n\nAs ${same}.`];
    })
  );
}

function section({ versions, body }: Table): string {
  const by_source = Map.groupBy(body.fields.keys(), (field) => body.sources.get(field) ?? "");
  const found: Found = { free: new Set(), features: new Set(), never: new Set() };
  collect(body, "", new Set(), found);
  return [
    `Version ${versions.map(code).join(" and ")}.`,
    ...[...by_source].map(([source, fields]) => `- ${source}: ${fields.map(code).join(", ")}`),
    `- free JSON: ${[...found.free].map(code).join(", ")}`,
    `- only with its name in \`allow_vendor_tools\`: ${[...found.features].sort().map(code).join(", ")}`,
    ...(found.never.size === 0 ? [] : [`- at one price only: ${[...found.never].map(code).join(", ")}`]),
  ].join("\n").replace("\n", "\n\n");
}

function code(text: string): string {
  return `\`${text}\``;
}

interface Found {
  /** Paths of free JSON; what stands at several places is shown at the first. */
  free: Set<string>;
  /** Names of what has to be allowed. */
  features: Set<string>;
  never: Set<string>;
}

function collect(shape: Shape, path: string, seen: Set<Shape>, found: Found): void {
  if (shape.kind === "data") found.free.add(path);
  if (shape.kind === "data_url" || shape.kind === "inline") found.features.add("url_source");
  if (shape.kind === "priced" || (shape.kind === "gated" && shape.features.length === 0)) found.never.add(path);
  if (shape.kind === "gated" && shape.features.length > 0) found.features.add(shape.features[0]!);
  if (seen.has(shape) || shape.kind === "data") return;
  seen.add(shape);
  const below = (shape: Shape | undefined, key?: string) => {
    if (shape) collect(shape, [path, key].filter((part) => part).join("."), seen, found);
  };
  switch (shape.kind) {
    case "object":
      for (const [key, member] of (shape as ObjectShape).fields) below(member, key);
      break;
    case "tagged":
      below(shape.untagged);
      for (const [tag, variant] of shape.variants) below(variant, `(${tag})`);
      break;
    case "list":
    case "map":
      below(shape.of);
      break;
    case "either":
      for (const each of [shape.text, shape.list, shape.object]) below(each);
      break;
    case "gated":
      below(shape.inner);
      break;
    default:
  }
}

if (import.meta.main) {
  const page = await Deno.readTextFile(PAGE);
  await Deno.writeTextFile(PAGE, withReference(page));
  await new Deno.Command("deno", { args: ["fmt", "-q", PAGE.pathname] }).output();
}
