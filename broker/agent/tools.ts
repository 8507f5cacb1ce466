/**
 * What the built-in agent can do: one table, from which the model's tool list, the dispatch and the documentation
 * are made. What `run` runs is run by the broker, in a sandbox of its own. Whatever the model sends, the answer is text of bounded length;
 * a call that cannot be done is answered with the reason.
 */

import type { Clock } from "../../lib/clock.ts";
import {
  type CommandRequest,
  type CommandResult,
  DEFAULT_COMMAND_S,
  MAX_ANSWER_LENGTH,
  MAX_ARGUMENTS_LENGTH,
  MAX_COMMAND_LENGTH,
  MAX_COMMAND_S,
  type ToolAnswer,
} from "./calls.ts";
import type { AgentDatabases } from "./sql_tool.ts";
import { ToolError, type WorkTree } from "./work_tree.ts";
import { plural } from "../../lib/text/plural.ts";
import { parseJson } from "../../lib/text/json.ts";

const MAX_MATCHES = 200;
/** The longest line that `search` shows, in UTF-16 units. */
const MAX_SHOWN_LINE = 300;
const MAX_NEEDLE = 1_000;
/** Milliseconds after which `search` reports what it has. */
const SEARCH_MS = 5_000;

export interface ToolContext {
  tree: WorkTree;
  clock: Clock;
  databases?: AgentDatabases;
  /** Has a command run in the work folder, which nothing else uses meanwhile; absent where there is no sandbox for it. */
  runCommand?: (request: CommandRequest) => Promise<CommandResult>;
}

/** What not every task has. */
export interface ToolNeeds {
  databases: boolean;
  runs: boolean;
}

interface Parameter {
  type: "string" | "integer" | "boolean";
  description: string;
  optional?: boolean;
}

interface Tool {
  description: string;
  needs?: keyof ToolNeeds;
  parameters: Readonly<Record<string, Parameter>>;
  run(args: Arguments, context: ToolContext): Promise<ToolAnswer>;
}

const IS_OF_TYPE: Readonly<Record<Parameter["type"], (value: unknown) => boolean>> = {
  string: (value) => typeof value === "string",
  integer: Number.isSafeInteger,
  boolean: (value) => typeof value === "boolean",
};

const PATH: Parameter = { type: "string", description: "Path relative to the work folder, such as src/main.ts" };

export const TOOLS: Readonly<Record<string, Tool>> = {
  read: {
    description: "Read a text file, with line numbers. Long files are cut: ask for the next part with first_line.",
    parameters: {
      path: PATH,
      first_line: { type: "integer", description: "First line to show, from 1", optional: true },
      lines: { type: "integer", description: "How many lines to show", optional: true },
    },
    async run(args, { tree }) {
      const path = args.text("path");
      const all = (await tree.read(path)).split("\n");
      if (all.at(-1) === "") all.pop();
      const first = args.integer("first_line", 1);
      const requested = all.slice(first - 1, first - 1 + args.integer("lines", all.length || 1));
      const numbered = requested.map((line, index) => `${first + index}\t${line}`).join("\n");
      const head = `${path}: ${plural(all.length, "line")}`;
      return { ok: true, text: `${head}\n${numbered}`, summary: head };
    },
  },
  write: {
    description: "Write a whole text file; makes the folders it needs. Use edit for changes to a file that exists.",
    parameters: { path: PATH, content: { type: "string", description: "The whole new content" } },
    async run(args, { tree }) {
      const path = args.text("path");
      const content = args.text("content", { may_be_empty: true });
      const done = `${await tree.write(path, content)} ${path} (${plural(content.length, "character")})`;
      return { ok: true, text: done, summary: done };
    },
  },
  edit: {
    description: "Replace one exact piece of a text file. The old text must occur exactly once, unless all is true.",
    parameters: {
      path: PATH,
      old_text: { type: "string", description: "Exact text to replace, without line numbers" },
      new_text: { type: "string", description: "Text to put in its place" },
      all: { type: "boolean", description: "Replace every occurrence", optional: true },
    },
    async run(args, { tree }) {
      const path = args.text("path");
      const old_text = args.text("old_text");
      const new_text = args.text("new_text", { may_be_empty: true });
      const before = await tree.read(path);
      const count = before.split(old_text).length - 1;
      if (count === 0) throw new ToolError(`old_text does not occur in ${path}; read it and copy the text exactly`);
      const all = args.boolean("all");
      if (count > 1 && !all) throw new ToolError(`old_text occurs ${count} times in ${path}; add context, or set all`);
      if (before.length + count * (new_text.length - old_text.length) > MAX_ARGUMENTS_LENGTH) {
        throw new ToolError("The result would be too large");
      }
      await tree.write(path, before.split(old_text).join(new_text));
      const done = `replaced ${plural(count, "occurrence")} in ${path}`;
      return { ok: true, text: done, summary: done };
    },
  },
  list: {
    description: "List a folder.",
    parameters: { path: { ...PATH, description: "Folder relative to the work folder; . is the work folder itself" } },
    async run(args, { tree }) {
      const path = args.text("path");
      const { entries, more } = await tree.list(path);
      const shown = entries.map(({ name, kind, size_bytes, target }) =>
        kind === "folder"
          ? `${name}/`
          : kind === "file"
          ? `${name} (${plural(size_bytes!, "byte")})`
          : `${name} (${target === undefined ? kind : `link to ${JSON.stringify(target)}`}, off limits)`
      );
      const text = [...shown, ...(more ? ["... and more that are not shown"] : [])].join("\n");
      return { ok: true, text: text === "" ? "(empty)" : text, summary: `${path}: ${plural(entries.length, "entry")}` };
    },
  },
  search: {
    description: "Find a literal text (not a pattern) in the files below a folder; shows path, line number and line.",
    parameters: {
      text: { type: "string", description: "Literal text within one line" },
      path: { ...PATH, description: "Folder or file to search; the whole work folder when absent", optional: true },
      ignore_case: { type: "boolean", description: "Ignore upper and lower case", optional: true },
    },
    run: search,
  },
  sql: {
    description: "Run SQL on one of the task's SQLite databases; several statements are separated by semicolons. " +
      "A transaction ends with the call.",
    needs: "databases",
    parameters: {
      database: { type: "string", description: "Name of the database" },
      statement: { type: "string", description: "One or more statements" },
    },
    async run(args, { databases }) {
      if (databases === undefined) throw new ToolError("The task has no databases");
      return { ok: true, ...await databases.run(args.text("database"), args.text("statement")) };
    },
  },
  run: {
    description:
      "Run a command with sh in the work folder, such as the repository's tests. It has the machine's programs, no network, " +
      "and /tmp and its home only until it ends; processes that it leaves are ended.",
    needs: "runs",
    parameters: {
      command: { type: "string", description: "The command, for sh -c" },
      seconds: {
        type: "integer",
        description: `How long it may take: ${DEFAULT_COMMAND_S} when absent, at most ${MAX_COMMAND_S}`,
        optional: true,
      },
    },
    async run(args, { tree, runCommand }) {
      if (runCommand === undefined) throw new ToolError("The task can run no programs");
      const command = args.text("command");
      if (command.length > MAX_COMMAND_LENGTH || command.includes("\0")) {
        throw new ToolError(`A command has at most ${MAX_COMMAND_LENGTH} characters, and no NUL`);
      }
      const timeout_s = Math.min(args.integer("seconds", DEFAULT_COMMAND_S), MAX_COMMAND_S);
      const { links, output, ...end } = await runCommand({ command, timeout_s });
      tree.relink(links);
      const how = describeEnd(end, timeout_s);
      return {
        ok: end.reason === "exited" && end.code === 0,
        text: `${how}\n${output}`,
        summary: `${how}: ${command}`,
      };
    },
  },
  finish: {
    description: "End the task. Call it once, when the work is done or cannot be done.",
    parameters: {
      summary: { type: "string", description: "What was changed and why, what was not done, what should be checked" },
    },
    run(args) {
      const summary = args.text("summary");
      return Promise.resolve({ ok: true, text: "finished", summary, finished: true });
    },
  },
};

/** How a command ended, in a few words. */
export function describeEnd(end: Pick<CommandResult, "reason" | "code" | "duration_ms">, timeout_s: number): string {
  const { reason, code, duration_ms } = end;
  if (reason === "timed_out") return `ended after its ${plural(timeout_s, "second")}`;
  if (reason === "out_of_memory") return "ended: it needed more memory than it may have";
  return `exit code ${code} after ${(duration_ms / 1_000).toFixed(1)} s`;
}

/** The tools that there are, by name. */
export function toolNames(has: ToolNeeds): string[] {
  return Object.keys(TOOLS).filter((name) => {
    const { needs } = TOOLS[name]!;
    return needs === undefined || has[needs];
  });
}

export function toolDefinitions(has: ToolNeeds): unknown[] {
  return toolNames(has).map((name) => [name, TOOLS[name]!] as const).map(([name, { description, parameters }]) => ({
    type: "function",
    function: {
      name,
      description,
      parameters: {
        type: "object",
        properties: Object.fromEntries(
          Object.entries(parameters).map(([key, { type, description }]) => [key, { type, description }]),
        ),
        required: Object.keys(parameters).filter((key) => !parameters[key]!.optional),
        additionalProperties: false,
      },
    },
  }));
}

/** Does one call of the model; never throws for what the model sent. */
export async function callTool(name: string, json: string, context: ToolContext): Promise<ToolAnswer> {
  try {
    const tool = Object.hasOwn(TOOLS, name) ? TOOLS[name] : undefined;
    if (tool === undefined) {
      throw new ToolError(
        `There is no tool ${JSON.stringify(name.slice(0, 64))}; use ${
          toolNames({ databases: context.databases !== undefined, runs: context.runCommand !== undefined }).join(", ")
        }`,
      );
    }
    const answer = await tool.run(new Arguments(json, tool.parameters), context);
    return { ...answer, text: bounded(answer.text) };
  } catch (error) {
    if (!(error instanceof ToolError)) throw error;
    return { ok: false, text: `Error: ${bounded(error.message)}`, summary: error.message };
  }
}

class Arguments {
  readonly #values: Record<string, unknown>;

  constructor(json: string, parameters: Tool["parameters"]) {
    if (json.length > MAX_ARGUMENTS_LENGTH) throw new ToolError("The arguments are too large");
    // Some endpoints send nothing where there are no arguments.
    const values = parseJson(json === "" ? "{}" : json);
    if (values === undefined) throw new ToolError("The arguments are not valid JSON");
    if (typeof values !== "object" || values === null || Array.isArray(values)) {
      throw new ToolError("The arguments are not a JSON object");
    }
    this.#values = values as Record<string, unknown>;
    for (const [name, value] of Object.entries(this.#values)) {
      const parameter = Object.hasOwn(parameters, name) ? parameters[name] : undefined;
      if (parameter === undefined) throw new ToolError(`There is no argument ${JSON.stringify(name.slice(0, 64))}`);
      if (value === null && parameter.optional) delete this.#values[name];
      else if (!IS_OF_TYPE[parameter.type](value)) {
        throw new ToolError(`The argument ${name} must be of type ${parameter.type}`);
      }
    }
    for (const [name, { optional }] of Object.entries(parameters)) {
      if (!optional && !Object.hasOwn(this.#values, name)) throw new ToolError(`The argument ${name} is missing`);
    }
  }

  /** A string; types were checked by the table. */
  text(name: string, options: { may_be_empty?: boolean } = {}): string {
    const value = String(this.#values[name]);
    if (value === "" && !options.may_be_empty) throw new ToolError(`The argument ${name} is empty`);
    return value;
  }

  has(name: string): boolean {
    return Object.hasOwn(this.#values, name);
  }

  integer(name: string, fallback: number): number {
    return Math.max(1, this.has(name) ? Number(this.#values[name]) : fallback);
  }

  boolean(name: string): boolean {
    return this.#values[name] === true;
  }
}

async function search(args: Arguments, { tree, clock }: ToolContext): Promise<ToolAnswer> {
  const ignore_case = args.boolean("ignore_case");
  const fold = (text: string) => ignore_case ? text.toLowerCase() : text;
  const needle = fold(args.text("text"));
  if (needle.length > MAX_NEEDLE) throw new ToolError(`The text has more than ${MAX_NEEDLE} characters`);
  if (needle.includes("\n")) throw new ToolError("The text must lie within one line");
  const deadline = clock.monotonic() + SEARCH_MS;
  const matches: string[] = [];
  let skipped = 0;
  let why_cut: string | undefined;
  const cut = (why: string) => void (why_cut ??= why);
  for await (const path of tree.files(args.has("path") ? args.text("path") : ".", cut)) {
    if (clock.monotonic() > deadline) cut("the time is up, the rest was not searched");
    if (why_cut !== undefined) break;
    let content: string;
    try {
      content = await tree.read(path);
    } catch (error) {
      if (!(error instanceof ToolError)) throw error;
      skipped++;
      continue;
    }
    if (!fold(content).includes(needle)) continue;
    for (const [index, line] of content.split("\n").entries()) {
      if (!fold(line).includes(needle)) continue;
      if (matches.length >= MAX_MATCHES) {
        cut(`only the first ${MAX_MATCHES} matches are shown`);
        break;
      }
      matches.push(`${path}:${index + 1}: ${line.slice(0, MAX_SHOWN_LINE)}`);
    }
  }
  const notes = [
    ...(why_cut === undefined ? [] : [`(${why_cut})`]),
    ...(skipped === 0 ? [] : [`(skipped: ${plural(skipped, "file")}, binary, too large or unreadable)`]),
  ];
  const found = matches.length === 0 ? ["no match"] : matches;
  return { ok: true, text: [...found, ...notes].join("\n"), summary: plural(matches.length, "match") };
}

function bounded(text: string): string {
  if (text.length <= MAX_ANSWER_LENGTH) return text;
  return `${text.slice(0, MAX_ANSWER_LENGTH)}\n[cut: ${text.length - MAX_ANSWER_LENGTH} more characters]`;
}
