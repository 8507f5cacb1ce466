/**
 * Writes docs/reference/commands.md from the command table. `deno run -A tests/cli/reference.ts`
 * brings the page up to date; a test fails while it is not.
 *
 * @module
 */

import { PROGRAM_PATHS } from "../../broker/sandbox/host_programs.ts";
import type { HostPlace } from "../../cli/plan/broker_host.ts";
import { type CommandSpec, type FlagSpec, GROUPS } from "../../cli/plan/command_spec.ts";
import { COMMANDS, GLOBAL_FLAGS } from "../../cli/table/commands.ts";
import { flagHelp, flagWord, usageLine } from "../../cli/commands/help_text.ts";
import { PERMISSION_KINDS } from "../../cli/plan/permissions.ts";
import { daemonLockPath } from "../../lib/store/daemon_lock.ts";

const BEGIN = "<!-- reference: written by tests/cli/reference.ts -->";
const END = "<!-- end of reference -->";

/** The page. */
export const PAGE = new URL("../../docs/reference/commands.md", import.meta.url);

/** The page with its reference brought up to date. */
export function withReference(page: string): string {
  const begin = page.indexOf(BEGIN);
  const end = page.indexOf(END);
  if (begin < 0 || end < begin) throw new Error("docs/reference/commands.md has lost the marks of its reference");
  return `${page.slice(0, begin + BEGIN.length)}\n\n${renderReference()}\n\n${page.slice(end)}`;
}

function renderReference(): string {
  const groups = GROUPS.map((group) => {
    const commands = COMMANDS.filter((command) => command.group === group);
    return [`## ${group}`, ...commands.map(renderCommand)].join("\n\n");
  });
  return ["## Flags of every command", flagRows(GLOBAL_FLAGS), ...groups].join("\n\n");
}

function renderCommand(command: CommandSpec): string {
  const words = command.positionals.map((each) => [`\`${each.name}\`${each.optional ? "" : " *"}`, each.help]);
  const examples = command.examples.map((example) => `taskd ${example.words}   # ${example.why}`);
  return [
    `### ${command.name}`,
    `\`${usageLine(command)}\``,
    shown(`${command.summary}.${command.details === undefined ? "" : ` ${command.details}`}`),
    ...(words.length === 0 ? [] : [rows(["Argument", "Meaning"], words)]),
    ...(command.flags.length === 0 ? [] : [flagRows(command.flags)]),
    "```sh\n" + examples.join("\n") + "\n```",
    permissions(command),
  ].join("\n\n");
}

/** What there is on a host, by what it is. */
const HOST_WORDS: HostPlace = {
  directory: "~/.taskd",
  lock: daemonLockPath("~/.taskd"),
  egress_list: "EGRESS_CONFIG",
  roots: ["ROOTS"],
  variables: ["TASKD_*", "VENDOR*_API_KEY"],
  tool_variables: ["variables of git, gh and the runtimes"],
  programs: Object.fromEntries(Object.keys(PROGRAM_PATHS).map((name) => [name, [name]])) as Record<
    keyof HostPlace["programs"],
    string[]
  >,
  notifiers: ["notify-send", "osascript"],
  deno: "DENO",
  store: "STORE",
  temporary: "TMPDIR",
  unit_folders: ["UNIT_FOLDERS"],
};

/** What a call may touch, with words in the place of paths. */
function permissions(command: CommandSpec): string {
  const told = (route: "store" | "socket") => {
    const named = command.positionals.filter(({ kind }) => kind === "file" || kind === "store");
    const positionals = Object.fromEntries(named.map(({ name }) => [name, name.toUpperCase()]));
    const values = command.flags.map(({ name }) => [name, name === "from" || name === "file" ? "FILE" : null]);
    const flags = Object.fromEntries(values);
    const socket = "SOCKET";
    const plan = {
      command: command.name,
      positionals,
      flags,
      store: "STORE",
      workspace: "STORE",
      socket,
      route,
      broker: { home: "HOME", socket: "BROKER_FOLDER/SOCKET", host: HOST_WORDS },
    };
    const set = command.needs(plan);
    const parts = PERMISSION_KINDS.filter((kind) => set[kind].length > 0).map((kind) => {
      const places = set[kind].filter((place) => !place.startsWith("/") || kind === "run");
      const program = places.length < set[kind].length ? ["the program's own modules"] : [];
      return `${kind} ${[...places.map((place) => `\`${place}\``), ...program].join(", ")}`;
    });
    return parts.length === 0 ? "nothing" : parts.join("; ");
  };
  if (command.uses !== "branches") return `May: ${told("store")}.`;
  return `May, on the store: ${told("store")}.\n\nMay, when a daemon is alive: ${told("socket")}.`;
}

function flagRows(flags: readonly FlagSpec[]): string {
  return rows(["Flag", "Meaning"], flags.map((flag) => [`\`${flagWord(flag)}\``, flagHelp(flag)]));
}

/** Text that Markdown shows as it is; code stays code. */
function shown(text: string): string {
  return text.startsWith("`") ? text : text.replaceAll("<", "\\<");
}

function rows(head: string[], body: string[][]): string {
  return [head, head.map(() => "---"), ...body.map((row) => row.map(shown))].map((row) => `| ${row.join(" | ")} |`)
    .join("\n");
}

if (import.meta.main) await Deno.writeTextFile(PAGE, withReference(await Deno.readTextFile(PAGE)));
