/**
 * What a page of the documentation says to type, and what it says will be printed.
 *
 * A block of `yaml` that begins with `# ~/` and a path is what to put into that file. Blocks of `sh` are commands. Blocks of `console` are commands after `$ `, continued by a backslash, and what they
 * print. In what is printed `...` stands for any text, alone on a line for any lines. Times stand for any time. A number
 * in hex of eight digits or more stands for the one that the run prints in its place, from there on in commands too.
 */

/** One command, with the lines that the page shows below it; without `shown` the page does not say. */
export interface Step {
  command: string;
  /** Number of its line in the page. */
  line: number;
  shown?: string[];
  /** A file below the home directory, in YAML, into which the block's values go; there is no command then. */
  edits?: string;
}

/** The commands of a page, in order. */
export function stepsOf(markdown: string): Step[] {
  const steps: Step[] = [];
  let block: { kind: "sh" | "console" | "yaml"; line: number; lines: string[] } | undefined;
  markdown.split("\n").forEach((text, index) => {
    const opening = /^\s*```(sh|console|yaml)$/.exec(text);
    if (block === undefined && opening !== null) {
      block = { kind: opening[1] as "sh" | "console" | "yaml", line: index + 2, lines: [] };
    } else if (block !== undefined && text.trim() === "```") {
      const { kind, lines, line } = block;
      if (kind === "console") steps.push(...dialogue(lines, line));
      else if (kind === "sh") steps.push(script(lines, line));
      else steps.push(...edit(lines, line));
      block = undefined;
    } else block?.lines.push(text);
  });
  return steps;
}

function script(lines: string[], line: number): Step {
  const indent = /^ */.exec(lines[0] ?? "")![0].length;
  return { command: lines.map((each) => each.slice(indent)).join("\n"), line };
}

function edit(lines: string[], line: number): Step[] {
  const path = /^# ~\/(\S+)$/.exec(lines[0] ?? "")?.[1];
  return path === undefined ? [] : [{ command: lines.join("\n"), line, edits: path }];
}

function dialogue(lines: string[], first: number): Step[] {
  const steps: (Step & { shown: string[] })[] = [];
  let continues = false;
  lines.forEach((text, index) => {
    const last = steps.at(-1);
    if (continues && last !== undefined) last.command += `\n${text}`;
    else if (text.startsWith("$ ")) steps.push({ command: text.slice(2), line: first + index, shown: [] });
    else if (last === undefined) throw new Error(`line ${first + index}: a console block begins with "$ "`);
    else last.shown.push(text);
    continues = text.endsWith("\\") && (continues || text.startsWith("$ "));
  });
  return steps;
}

const HEX = /\b(?=[0-9a-f]*[0-9])[0-9a-f]{8,}\b/;
const TIME = /\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d+)?Z/;
const VARYING = new RegExp(`(\\.\\.\\.|${TIME.source}|${HEX.source})`);

/** Hex numbers that a page shows, and those of the run in their place. */
export class Bindings {
  readonly #actual = new Map<string, string>();

  /** Notes that `shown` stands for `actual`. */
  bind(shown: string, actual: string): void {
    if (!this.#actual.has(shown)) this.#actual.set(shown, actual);
  }

  /** The command with the run's numbers in it: of those bound, and of their beginnings of four digits or more. */
  applied(command: string): string {
    return command.replaceAll(/\b[0-9a-f]{4,}\b/g, (word) => {
      for (const [shown, actual] of this.#actual) if (shown.startsWith(word)) return actual.slice(0, word.length);
      return word;
    });
  }
}

/** Compares what was printed with what the page shows; returns what is missing, or nothing. Binds numbers in hex. */
export function firstMissing(
  shown: readonly string[],
  printed: readonly string[],
  bindings: Bindings,
): string | undefined {
  const reached = match(shown, printed, 0, 0);
  if (typeof reached === "string") return reached;
  for (const [a, b] of reached) bindings.bind(a, b);
}

type Pairs = [string, string][];

/** Matches lines from `at` and `from` on; a line of `...` takes as few lines as it can. */
function match(shown: readonly string[], printed: readonly string[], at: number, from: number): Pairs | string {
  if (at === shown.length) {
    const rest = printed.slice(from).filter((line) => line.trim() !== "");
    return rest.length === 0 ? [] : `more than the page shows: ${rest[0]}`;
  }
  const line = shown[at]!;
  if (line.trim() === "...") {
    let why = "";
    for (let skip = from; skip <= printed.length; skip++) {
      const found = match(shown, printed, at + 1, skip);
      if (typeof found !== "string") return found;
      why ||= found;
    }
    return why;
  }
  const pairs = from < printed.length ? matchLine(line, printed[from]!) : undefined;
  if (pairs === undefined) return `the page shows "${line}", the run "${printed[from] ?? "nothing"}"`;
  const rest = match(shown, printed, at + 1, from + 1);
  return typeof rest === "string" ? rest : [...pairs, ...rest];
}

function matchLine(shown: string, printed: string): Pairs | undefined {
  const names: string[] = [];
  const pattern = shown.trimEnd().split(VARYING).map((part) => {
    if (part === "...") return ".*?";
    if (new RegExp(`^${TIME.source}$`).test(part)) return TIME.source;
    if (new RegExp(`^${HEX.source}$`).test(part)) {
      names.push(part);
      return `([0-9a-f]{${part.length}})`;
    }
    return part.replaceAll(/[.*+?^${}()|[\]\\]/g, "\\$&");
  });
  const found = new RegExp(`^${pattern.join("")}$`).exec(printed.trimEnd());
  return found === null ? undefined : names.map((name, index) => [name, found[index + 1]!]);
}
