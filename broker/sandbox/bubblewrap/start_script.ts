/**
 * How a sandbox of bubblewrap is started: the command on the host, and the first program inside.
 *
 * On the host, bash opens the files that bwrap takes by number, closes every other one, and becomes bwrap, which is so the
 * broker's own child and ends with it. bwrap's arguments come over standard input. As root it first leaves root: what the
 * sandbox is given is bound to a place that its own user can reach, in a mount namespace that nothing else sees.
 *
 * Inside, a shell sets the limits of each process, starts the forwarder, and becomes the agent. Exit code 121 is its own,
 * before the agent has begun.
 */

import { helperArgs, helperEnv } from "../../../lib/helper_process.ts";
import { shellWord } from "../../../lib/text/shell_word.ts";
import { words } from "../../../lib/text/words.ts";
import { AGENT_ID, MAPPED_BASE } from "../agent_user.ts";
import { MARKER } from "../processes.ts";
import {
  bubblewrapArgs,
  type BubblewrapOrder,
  DENO_TARGET,
  DESCRIPTORS,
  forwardedLines,
  FORWARDER_TARGET,
  START_TARGET,
} from "./bubblewrap_arguments.ts";
import forwarder from "./forwarder.js" with { type: "text" };
import { type FilterArch, seccompFilter } from "./seccomp_filter.ts";
import script from "./start.sh" with { type: "text" };
import { OWN_ETC } from "./system_view.ts";

/** What the first program inside writes under bwrap's report: until then a failure is bwrap's own. */
export const BEGAN = "began";

const HEAP_MIB = 64;
const NOWHERE = "/nonexistent";

export interface StartOptions {
  /** The bwrap program, absolute. */
  bwrap: string;
  /** The broker's user; 0 is left before bwrap starts. */
  uid: number;
  arch: FilterArch;
  order: Omit<BubblewrapOrder, "reports">;
  command: readonly string[];
  max_pids: number;
  /** Bytes of memory that each process may write to; absent where the sandbox as a whole is bounded. */
  process_bytes?: number | undefined;
  /** By which its processes are found again. */
  owner: string;
  task_id: string;
  /** Where bwrap reports what it has started. */
  report?: string | undefined;
  /** What puts the command into a control group: its words come before the command's. */
  bounded_by?: readonly string[];
}

export interface StartCommand {
  program: string;
  args: string[];
  stdin: Uint8Array<ArrayBuffer>;
}

export function startCommand(options: StartOptions): StartCommand {
  const { bwrap, uid, arch, report, order, command, bounded_by = [] } = options;
  const sources: string[] = [];
  const source = (path: string) => {
    if (uid !== 0) return path;
    if (!sources.includes(path)) sources.push(path);
    return `/mnt/${sources.indexOf(path)}`;
  };
  const args = bubblewrapArgs({ ...order, reports: report !== undefined }, source);
  const forwards = forwardedLines(order).length > 0;
  const etc = OWN_ETC.map(([, text]) => text.trimEnd());
  const starting = [
    ...["/bin/bash", "-c", script, "taskd-sandbox"],
    ...[seccompFilter(arch).toBase64(), firstProgram(options), forwards ? forwarder : "", report ?? ""],
    ...[String(etc.length), ...etc],
    ...[String(sources.length), ...sources],
    ...bounded_by,
    ...(uid === 0 ? leavingRoot() : []),
    ...[bwrap, "--args", String(DESCRIPTORS.args), "--"],
    ...["/bin/sh", START_TARGET, `${MARKER}${options.owner}:${options.task_id}`, ...command],
  ];
  const whole = uid === 0 ? ["/usr/bin/unshare", "--mount", "--propagation", "slave", ...starting] : starting;
  const stdin = new TextEncoder().encode(args.map((word) => `${word}\0`).join(""));
  return { program: whole[0]!, args: whole.slice(1), stdin };
}

function leavingRoot(): string[] {
  const id = MAPPED_BASE + AGENT_ID;
  return ["/usr/bin/setpriv", `--reuid=${id}`, `--regid=${id}`, "--clear-groups", "--"];
}

/** The text of the first program inside, for any POSIX shell. */
export function firstProgram({ order, max_pids, process_bytes, report }: StartOptions): string {
  const lines = forwardedLines(order);
  return [
    "set -u",
    'fail() { echo "taskd: cannot start the sandbox: $1" >&2; exit 121; }',
    // Closed before anything else is started.
    ...(report === undefined ? [] : [`echo ${BEGAN} >&${DESCRIPTORS.began}; exec ${DESCRIPTORS.began}>&-`]),
    "shift",
    "umask 022",
    ...(lines.length === 0 ? [] : [
      `said=$(${forwarderCommand(lines)} </dev/null 2>/dev/null | { read -r word; echo "$word"; })`,
      '[ "$said" = ready ] || fail "its forwarder does not listen"',
    ]),
    // The lesser of what is to be and what is: a limit can only be lowered.
    'limit() { now=$(ulimit -H "$1"); { [ "$now" != unlimited ] && [ "$now" -le "$2" ]; } || ulimit "$1" "$2"; }',
    "processes=-p",
    "if (ulimit -u) >/dev/null 2>&1; then processes=-u; fi",
    // Of this namespace alone, since it is set inside of it.
    `limit "$processes" ${max_pids} || fail "its processes cannot be bounded"`,
    ...(process_bytes === undefined ? [] : [
      `limit -d ${Math.ceil(process_bytes / 1_024)} || fail "its memory cannot be bounded"`,
    ]),
    'ulimit -c 0 || fail "its limits cannot be set"',
    "unset now processes said",
    'exec "$@"',
    "",
  ].join("\n");
}

/** In a session of its own, so that signals to the agent's group are not its; the first process becomes its parent. */
function forwarderCommand(lines: ReturnType<typeof forwardedLines>): string {
  const net = lines.flatMap(({ port, target }) => [`127.0.0.1:${port}`, `unix:${target}`]);
  const helper = {
    name: "forwarder",
    module: `file://${FORWARDER_TARGET}`,
    folders: lines.map(({ target }) => target),
    net: net.join(","),
    heap_mib: HEAP_MIB,
  } as const;
  // A compiled program keeps what V8 has made of it in TMPDIR, where an agent could exchange it.
  const env = { ...helperEnv(NOWHERE), TMPDIR: NOWHERE };
  return [
    ...words("setsid --fork env -i"),
    ...Object.entries(env).map(([name, value]) => `${name}=${value}`),
    ...[DENO_TARGET, ...helperArgs(helper)],
    ...lines.flatMap(({ port, target }) => [String(port), target]),
  ].map(shellWord).join(" ");
}
