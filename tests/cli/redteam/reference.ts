/**
 * Writes the promises of tests/cli/redteam/README.md from the two catalogues of attacks.
 * `deno run -A tests/cli/redteam/reference.ts` brings the page up to date; a test fails while it is not.
 */

import { PROMISES } from "../../../cli/redteam/catalogue.ts";
import { groupOf } from "../../../cli/redteam/run_promises.ts";
import { GROUP_TITLES, type SecurityPromise } from "../../../cli/redteam/security_promise.ts";
import { COMMON_GROUPS, COMMON_PROMISES } from "../../attacks/catalogue.ts";

const BEGIN = "<!-- promises: written by tests/cli/redteam/reference.ts -->";
const END = "<!-- end of promises -->";

/** The page. */
export const PAGE = new URL("README.md", import.meta.url);

/** The page with its promises brought up to date. */
export function withReference(page: string): string {
  const begin = page.indexOf(BEGIN);
  const end = page.indexOf(END);
  if (begin < 0 || end < begin) throw new Error("tests/cli/redteam/README.md has lost the marks of its promises");
  return `${page.slice(0, begin + BEGIN.length)}\n\n${renderReference()}\n\n${page.slice(end)}`;
}

type Row = Pick<SecurityPromise, "id" | "promise" | "attacks">;

function renderReference(): string {
  return [
    "## What `taskd redteam` tries",
    renderGroups(PROMISES, GROUP_TITLES),
    "## What the tests try",
    renderGroups(COMMON_PROMISES, COMMON_GROUPS),
  ].join("\n\n");
}

function renderGroups(rows: readonly Row[], titles: Readonly<Record<string, string>>): string {
  const groups = Object.entries(Object.groupBy(rows, groupOf)) as [string, Row[]][];
  return groups.map(([group, promises]) => {
    const rows = promises.map(({ id, promise, attacks }) => `| \`${id}\` | ${cell(promise)} | ${cell(attacks)} |`);
    return [
      `### ${titles[group]}`,
      "",
      "| Promise | What it says | What is tried |",
      "| --- | --- | --- |",
      ...rows,
    ]
      .join("\n");
  }).join("\n\n");
}

/** Text in a table's cell; names of addresses, stars and underscores are no markup. */
function cell(text: string): string {
  return text.replaceAll("|", "\\|").replaceAll("*", "\\*").replaceAll("<", "\\<").replaceAll("_", "\\_");
}

if (import.meta.main) {
  await Deno.writeTextFile(PAGE, withReference(await Deno.readTextFile(PAGE)));
  await new Deno.Command(Deno.execPath(), { args: ["fmt", "--quiet", PAGE.pathname] }).output();
}
