/**
 * Writes the tables of docs/reference/broker_api.md from those of the program.
 * `deno run -A tests/broker/http/reference.ts` brings the page up to date; a test fails
 * while it is not.
 */

import type { HttpRoute } from "../../../broker/http/route.ts";
import { ROUTES } from "../../../broker/http/routes.ts";
import { STATUSES } from "../../../broker/http/statuses.ts";

/** The page. */
export const PAGE = new URL("../../../docs/reference/broker_api.md", import.meta.url);

/** The page with its tables brought up to date. */
export function withReference(page: string): string {
  return replaced(replaced(page, "routes", routes()), "statuses", statuses());
}

function replaced(page: string, name: string, table: string): string {
  const mark = `<!-- ${name}: written by tests/broker/http/reference.ts -->`;
  const begin = page.indexOf(mark);
  const end = page.indexOf(`<!-- end of ${name} -->`);
  if (begin < 0 || end < begin) throw new Error(`docs/reference/broker_api.md has lost the marks of its ${name}`);
  return `${page.slice(0, begin + mark.length)}\n\n${table}\n\n${page.slice(end)}`;
}

function routes(): string {
  const bodies = new Map<string, string>();
  const lines = ROUTES.map((route) => {
    const { method, path, query = {}, doc } = route;
    const names = Object.keys(query).map((name) => `?${name}=`).join(" ");
    const line = `- \`${method} ${path}${names === "" ? "" : ` [${names}]`}\`: ${doc.replaceAll("<id>", "`<id>`")}`;
    const takes = bodyText(route).map((text) => {
      const earlier = bodies.get(text);
      if (earlier !== undefined && text.length > 40) return `Takes what ${earlier} takes.`;
      bodies.set(text, `\`${method} ${path}\``);
      return text;
    });
    return [`${line}.`, ...takes, ...answerText(route)].join(" ");
  });
  return lines.join("\n");
}

/** The fields of a body; in brackets when there need be none. */
function bodyText({ body }: HttpRoute): string[] {
  if (body === undefined) return [];
  const fields = Object.entries(body.entries);
  const named = (optional: boolean) =>
    fields.filter(([, { type }]) => type.endsWith("optional") === optional).map(([name]) => `\`${name}\``).join(", ");
  const optional = named(true);
  return [
    `Takes ${[named(false), ...(optional === "" ? [] : [`[${optional}]`])].filter((text) => text !== "").join(", ")}.`,
  ];
}

/** What it answers, where that is not 200 with JSON. */
function answerText({ answer }: HttpRoute): string[] {
  if ("schema" in answer) return answer.status === 200 ? [] : [`Answers ${answer.status}.`];
  if (!("type" in answer)) return [`Answers ${answer.status}.`];
  return answer.type === "application/json" ? [] : [`Answers \`${answer.type}\`.`];
}

function statuses(): string {
  const rows = Object.entries(STATUSES).sort(([a], [b]) => a < b ? -1 : 1);
  const numbers = [...new Set(rows.map(([, [status]]) => status))].sort((a, b) => a - b);
  return numbers.map((number) => {
    const codes = rows.filter(([, [status]]) => status === number).map(([code, [, retry_after_s]]) =>
      `\`${code}\`${retry_after_s === undefined ? "" : ` (${retry_after_s} s)`}`
    );
    return `- ${number}: ${codes.join(", ")}`;
  }).join("\n");
}

if (import.meta.main) {
  await Deno.writeTextFile(PAGE, withReference(await Deno.readTextFile(PAGE)));
  await new Deno.Command(Deno.execPath(), { args: ["fmt", "--quiet", PAGE.pathname] }).output();
}
