/**
 * The broker's log: one entry for each thing that happened, as JSON for programs or as a line for people.
 *
 * An entry is one line of bounded length that cannot repaint a terminal. Texts that were declared secret appear in no
 * entry, in whatever message they are.
 */

import type { Clock } from "./clock.ts";
import { escapeJson, sanitizeLine } from "./text/sanitize.ts";
import { hideSecrets } from "./text/secrets.ts";

export type LogLevel = "info" | "warn" | "error";

export type LogFields = Readonly<Record<string, string | number | boolean | undefined>>;

/**
 * Takes one entry; never throws. `event` is a stable name for programs, such as `task_stage`; `message` is for people.
 */
export type Log = (level: LogLevel, event: string, message: string, fields?: LogFields) => void;

export interface BrokerLogOptions {
  /** JSON in place of lines for people. */
  json: boolean;
  clock: Clock;
  /** Takes a line, without its newline. */
  write: (line: string) => void;
}

export interface BrokerLog {
  log: Log;
  /** Keeps a text out of every entry from now on. */
  hide(secret: string): void;
}

const MAX_TEXT_CHARS = 4_000;
/** Shorter secrets are no secrets, and would make holes in every message. */
const MIN_SECRET_CHARS = 8;

export function createLog({ json, clock, write }: BrokerLogOptions): BrokerLog {
  const secrets = new Set<string>();
  const safe = (text: string) => {
    const shown = hideSecrets(text, secrets);
    return shown.length > MAX_TEXT_CHARS ? `${shown.slice(0, MAX_TEXT_CHARS).toWellFormed()}...` : shown;
  };
  const log: Log = (level, event, message, fields = {}) => {
    const ts = new Date(clock.now()).toISOString();
    const given = Object.entries(fields).filter(([, value]) => value !== undefined).map(([name, value]) => {
      return [name, typeof value === "string" ? safe(value) : value] as const;
    });
    try {
      if (json) {
        const entry = { ts, level, event, message: safe(message), ...Object.fromEntries(given) };
        return write(escapeJson(JSON.stringify(entry)));
      }
      const about = given.map(([name, value]) => ` ${name}=${sanitizeLine(String(value))}`).join("");
      write(`${ts} ${level.padEnd(5)} ${sanitizeLine(safe(message))}${about}`);
    } catch {
      // A log that cannot be written keeps no task from its end.
    }
  };
  return { log, hide: (secret) => void (secret.length >= MIN_SECRET_CHARS && secrets.add(secret)) };
}
