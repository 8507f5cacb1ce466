/**
 * Writes the index of docs/reference/errors.md from the table of error codes and what to do about each.
 * `deno run -A tests/docs/errors_reference.ts` brings the page up to date; a test fails while it is not.
 */

import { REMEDIES } from "../../cli/text/remedies.ts";
import { ERROR_CODES, type ErrorCode } from "../../lib/errors.ts";

const BEGIN = "<!-- reference: written by tests/docs/errors_reference.ts -->";
const END = "<!-- end of reference -->";

/** The page. */
export const PAGE = new URL("../../docs/reference/errors.md", import.meta.url);

/** The page with its index brought up to date. */
export function withReference(page: string): string {
  const [begin, end] = [page.indexOf(BEGIN), page.indexOf(END)];
  if (begin < 0 || end < begin) throw new Error("docs/reference/errors.md has lost the marks of its reference");
  return `${page.slice(0, begin + BEGIN.length)}\n\n${list()}\n\n${page.slice(end)}`;
}

function list(): string {
  const codes = (Object.keys(ERROR_CODES) as ErrorCode[]).sort();
  const remedies = [...new Set(codes.map((code) => REMEDIES[code]))];
  return remedies.map((remedy) => {
    const alike = codes.filter((code) => REMEDIES[code] === remedy);
    return `- ${alike.map((code) => `\`${code}\`: ${ERROR_CODES[code].replace(/; try again.*/, "")}`).join("; ")}. ${
      shown(remedy)
    }`;
  }).join("\n");
}

/** Text that Markdown shows as it is. */
function shown(text: string): string {
  return text.replaceAll("<", "\\<").replaceAll("a-z 0-9 _ . -", "`a-z 0-9 _ . -`");
}

if (import.meta.main) {
  await Deno.writeTextFile(PAGE, withReference(await Deno.readTextFile(PAGE)));
  await new Deno.Command(Deno.execPath(), { args: ["fmt", "--quiet", PAGE.pathname] }).output();
}
