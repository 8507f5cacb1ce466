/**
 * The desktop notification that a task waits for a person, through the program that the desktop has for it.
 *
 * One that cannot be shown is logged, and nothing waits for it. Its texts come from outside: they go as arguments of
 * their own (no shell, no script is made of them), on one line, short, and without markup.
 */

import { words } from "../../lib/text/words.ts";
import type { Clock } from "../../lib/clock.ts";
import { sanitizeLine } from "../../lib/text/sanitize.ts";
import type { AtGate } from "./engine_deps.ts";
import { runProcess } from "../../lib/process.ts";
import type { Log } from "../../lib/log.ts";
import { messageOf } from "../../lib/errors.ts";
import { isFile } from "../../lib/fs.ts";
import { PROGRAM_PATHS, setVariables } from "../sandbox/host_programs.ts";

export interface NotifyProgram {
  /** Where it may be, the most usual place first; absolute. */
  paths: readonly string[];
  /** Its arguments for a title and a text, both on one line. */
  args(title: string, text: string): string[];
}

export const notifyPrograms = (places = PROGRAM_PATHS): readonly NotifyProgram[] => [
  {
    paths: places["notify-send"],
    // The text, and not the title, may have markup.
    args: (title, text) => ["--app-name=taskd", "--", title, escapeMarkup(text)],
  },
  {
    paths: ["/usr/bin/osascript"],
    // The script is fixed, the texts are its arguments. The title does not begin with a hyphen, so options end there.
    args: (title, text) => [
      ...["on run argv", "display notification (item 2 of argv) with title (item 1 of argv)", "end run"]
        .flatMap((line) => ["-e", line]),
      title,
      text,
    ],
  },
];

/** By which these programs find the desktop. */
const VARIABLES: readonly string[] = words(`
  HOME USER DISPLAY WAYLAND_DISPLAY XAUTHORITY XDG_RUNTIME_DIR DBUS_SESSION_BUS_ADDRESS
`);

const TITLES: Readonly<Record<AtGate["stage"], string>> = {
  awaiting_approval: "taskd: an approval is pending",
  push_failed: "taskd: an approved change could not be pushed",
  data_waits: "taskd: a change is pushed, its data waits",
};
const MAX_INSTRUCTION_CHARS = 140;
const MAX_REPO_CHARS = 100;
const DEADLINE_MS = 10_000;
const CLOSE_MS = 2_000;
const MAX_OUTPUT_BYTES = 64 << 10;
const MAX_PENDING = 8;

export interface NotifierOptions {
  enabled: boolean;
  env: (name: string) => string | undefined;
  log: Log;
  clock: Clock;
  /** What may be there; a test has programs of its own. */
  programs?: readonly NotifyProgram[];
}

export class DesktopNotifier {
  readonly #options: NotifierOptions;
  readonly #found: { path: string; program: NotifyProgram } | undefined;
  readonly #pending = new Set<Promise<void>>();
  readonly #over = new AbortController();

  constructor(options: NotifierOptions) {
    this.#options = options;
    if (!options.enabled) return;
    const { programs = notifyPrograms() } = options;
    [this.#found] = programs.flatMap((program) => program.paths.filter(isFile).map((path) => ({ path, program })));
    if (this.#found === undefined) {
      options.log("info", "notify", "No desktop notifications: neither notify-send nor osascript is installed");
    }
  }

  /** Returns at once and never throws. */
  notify(task: AtGate): void {
    if (this.#found === undefined) return;
    const { log } = this.#options;
    if (this.#pending.size >= MAX_PENDING) {
      log("warn", "notify", "A desktop notification is left out: the desktop does not answer", {
        task_id: task.task_id,
      });
      return;
    }
    const { path, program } = this.#found;
    const shown = this.#show(path, program.args(TITLES[task.stage], textOf(task))).catch((error) => {
      log("warn", "notify", `A desktop notification cannot be shown: ${messageOf(error)}`, { task_id: task.task_id });
    });
    this.#pending.add(shown);
    void shown.finally(() => this.#pending.delete(shown));
  }

  /** Gives programs a moment to show theirs, which a later start takes for shown; then ends them. */
  async close(): Promise<void> {
    const shown = new AbortController();
    const late = this.#options.clock.sleep(CLOSE_MS, shown.signal).catch(() => {});
    await Promise.race([this.idle(), late]);
    shown.abort();
    this.#over.abort(new Error("the broker stops"));
    await this.idle();
  }

  async idle(): Promise<void> {
    await Promise.all(this.#pending);
  }

  async #show(path: string, args: string[]): Promise<void> {
    const { env, clock } = this.#options;
    const { code, stderr } = await runProcess(path, {
      args,
      env: { ...setVariables(env, VARIABLES), PATH: "/usr/bin:/bin" },
      deadline_ms: DEADLINE_MS,
      max_bytes: MAX_OUTPUT_BYTES,
      on_excess: "cut",
      clock,
      attempted: `Cannot run ${path}`,
      signal: this.#over.signal,
    });
    if (code !== 0) throw new Error(`${path} ended with ${code}: ${sanitizeLine(stderr.trim()).slice(0, 300)}`);
  }
}

function textOf({ task_id, repo, instruction }: AtGate): string {
  const name = shortened(repo, MAX_REPO_CHARS);
  return `${name}: ${shortened(instruction, MAX_INSTRUCTION_CHARS)} (${task_id.slice(0, 8)})`;
}

function shortened(text: string, max_chars: number): string {
  // Cut first: an instruction may be long, and what is cut is made whole again below.
  const head = text.slice(0, max_chars + 1).replace(/\s+/g, " ").trim();
  const line = sanitizeLine(head.length > max_chars ? head.slice(0, max_chars) : head);
  return text.length > max_chars ? `${line}...` : line;
}

function escapeMarkup(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}
