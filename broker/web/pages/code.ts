/**
 * One line of code as nodes: coloured, with its changed words marked and nothing hidden.
 */

import { elWith, type PageNode } from "./dom.ts";
import { oddities, type Oddity } from "../../../lib/text/characters.ts";
import { oddElement } from "./hidden.ts";
import type { Token } from "./syntax.ts";
import type { Range } from "./changed_words.ts";

export interface CodeMarks {
  tokens: readonly Token[];
  changed: readonly Range[];
}

/** The pieces of a line, cut wherever a mark begins or ends. */
export interface Piece extends Range {
  token: Token["kind"] | undefined;
  changed: boolean;
  odd: Oddity | undefined;
}

export function pieces(text: string, { tokens, changed }: CodeMarks): Piece[] {
  const odd = oddities(text);
  const cuts = new Set([0, text.length]);
  for (const { start, end } of [...tokens, ...changed, ...odd]) cuts.add(start).add(end);
  const sorted = [...cuts].sort((a, b) => a - b);
  const found: Piece[] = [];
  const within = [0, 0, 0];
  const at = <T extends Range>(kind: number, list: readonly T[], position: number): T | undefined => {
    while ((list[within[kind]!]?.end ?? Infinity) <= position) within[kind]!++;
    const next = list[within[kind]!];
    return next !== undefined && next.start <= position ? next : undefined;
  };
  for (const [index, start] of sorted.entries()) {
    const end = sorted[index + 1];
    if (end === undefined) break;
    found.push({
      start,
      end,
      token: at(0, tokens, start)?.kind,
      changed: at(1, changed, start) !== undefined,
      odd: at(2, odd, start),
    });
  }
  return found;
}

export function codeNodes(text: string, marks: CodeMarks): (PageNode | string)[] {
  return pieces(text, marks).map(({ start, end, token, changed, odd }) => {
    const part = text.slice(start, end);
    // A mixed word that other marks have cut is shown in parts, each of which is marked.
    const content = odd === undefined ? part : oddElement(part, odd);
    const names = [...token === undefined ? [] : [`t-${token}`], ...changed ? ["word"] : []];
    return names.length === 0 ? content : elWith("span", { class: names.join(" ") }, content);
  });
}
