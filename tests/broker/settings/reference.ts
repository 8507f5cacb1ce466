/**
 * Writes docs/reference/settings.md from the table of settings.
 * `deno run -A tests/broker/settings/reference.ts` brings the page up to date; a test
 * fails while it is not.
 */

import { GROUPS, SETTING_PATHS, type SettingPath, SETTINGS } from "../../../broker/settings/settings.ts";
import { type SettingRow, traitsOf } from "../../../broker/settings/value_schemas.ts";

const BEGIN = "<!-- reference: written by tests/broker/settings/reference.ts -->";
const END = "<!-- end of reference -->";

/** The page. */
export const PAGE = new URL("../../../docs/reference/settings.md", import.meta.url);

/** The page with its reference brought up to date. */
export function withReference(page: string): string {
  const begin = page.indexOf(BEGIN);
  const end = page.indexOf(END);
  if (begin < 0 || end < begin) throw new Error("docs/reference/settings.md has lost the marks of its reference");
  return `${page.slice(0, begin + BEGIN.length)}\n\n${renderReference()}\n\n${page.slice(end)}`;
}

function renderReference(): string {
  const plain = SETTING_PATHS.filter((path) => !path.includes("."));
  const groups = GROUPS.map((group) => {
    const paths = SETTING_PATHS.filter((path) => path.startsWith(`${group}.`));
    return `### ${group}\n\n${list(paths)}${examples(paths, group)}`;
  });
  return [`### Top level\n\n${list(plain)}${examples(plain)}`, ...groups].join("\n\n");
}

function list(paths: readonly SettingPath[]): string {
  const none = paths.every((path) => SETTINGS[path].env === undefined);
  const lines = paths.map((path) => {
    const { value, built_in, env, doc } = SETTINGS[path];
    const facts = [...kind(traitsOf(value).type), code(built_in), ...(none ? [] : variable(path, env))];
    return `- \`${path}\` (${facts.join("; ")}): ${doc.replaceAll(/(<id>|\*\*?)/g, "`$1`")}`;
  });
  return `${none ? "No variables.\n\n" : ""}${lines.join("\n")}`;
}

/** What the value is, without the ranges that the page gives once, and nothing where the default shows it. */
function kind(type: string): string[] {
  if (type === "`true`, `false`") return [];
  return [type.replace(/^(whole number|USD|duration), (?:0-10+|at most 3650d)$/, "$1")];
}

/** The variable, where it is not TASKD_ and the setting's name. */
function variable(path: SettingPath, env: string | undefined): string[] {
  if (env === undefined) return ["no variable"];
  return env === `TASKD_${path.replaceAll(".", "_").toUpperCase()}` ? [] : [`\`${env}\``];
}

function code(value: SettingRow["built_in"]): string {
  return value === "" ? "empty" : `\`${typeof value === "string" ? value : JSON.stringify(value)}\``;
}

function examples(paths: readonly SettingPath[], group?: string): string {
  const lines = paths.flatMap((path) => SETTINGS[path].example ?? []);
  if (lines.length === 0) return "";
  const shown = group === undefined ? lines : [`${group}:`, ...lines.map((line) => `  ${line}`)];
  return `\n\n\`\`\`yaml\n${shown.join("\n")}\n\`\`\``;
}

if (import.meta.main) {
  await Deno.writeTextFile(PAGE, withReference(await Deno.readTextFile(PAGE)));
  await new Deno.Command(Deno.execPath(), { args: ["fmt", "--quiet", PAGE.pathname] }).output();
}
