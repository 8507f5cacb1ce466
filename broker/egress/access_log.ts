/**
 * The access log, in squid's native format, so that the tools that read squid's read this one.
 *
 * A line is written before the next decision is made: the log has everything that happened, in order. Text from
 * outside cannot end a line, begin a field or repaint a terminal.
 */

import { join } from "@std/path/join";
import { withFileError } from "../../lib/fs.ts";
import { RotatedFile } from "../../lib/rotated_file.ts";
import type { EgressDecision } from "./decision.ts";

export const ACCESS_LOG_NAME = "access.log";
/** A log of this size is set aside as `access.log.0`, in place of the one before. */
const MAX_LOG_BYTES = 64 << 20;
const MAX_URL_CHARS = 2_048;

export interface Transfer {
  elapsed_ms: number;
  sent_bytes: number;
}

/**
 * One line: `time elapsed client code/status bytes method url user hierarchy/address type` as squid writes it, with
 * `reason=...` as an eleventh field, where its tools expect none and stop reading.
 */
export function formatLogLine(decision: EgressDecision, outcome: Transfer): string {
  const { at_ms, verdict, method, status } = decision;
  const seconds = `${Math.floor(at_ms / 1_000)}.${String(Math.floor(at_ms % 1_000)).padStart(3, "0")}`;
  const result = verdict === "denied" ? "TCP_DENIED" : method === "CONNECT" ? "TCP_TUNNEL" : "TCP_MISS";
  const fields = [
    seconds,
    String(Math.max(0, Math.round(outcome.elapsed_ms))).padStart(6),
    field(decision.peer),
    `${result}/${String(status).padStart(3, "0")}`,
    String(outcome.sent_bytes),
    field(method),
    field(decision.url, MAX_URL_CHARS),
    field(decision.task_id),
    decision.address === undefined ? "HIER_NONE/-" : `HIER_DIRECT/${field(decision.address)}`,
    "-",
    `reason=${decision.reason}${decision.detail === undefined ? "" : `;${field(decision.detail)}`}`,
  ];
  return `${fields.join(" ")}\n`;
}

/** Text as one field: everything but visible ASCII is percent-encoded, as squid does; a dash for nothing. */
function field(text: string | undefined, max_chars = 256): string {
  if (text === undefined || text === "") return "-";
  return text.slice(0, max_chars).toWellFormed().replace(/[^\x21-\x7e]/gu, (char) => encodeURIComponent(char));
}

export class AccessLog {
  readonly #file: RotatedFile;
  #healthy = true;

  private constructor(file: RotatedFile) {
    this.#file = file;
  }

  /**
   * Opens the log in `directory`, which is made (0700) if need be; the file is 0600.
   *
   * @throws {TaskdError} When it cannot be written.
   */
  static open(directory: string, max_bytes = MAX_LOG_BYTES): AccessLog {
    const path = join(directory, ACCESS_LOG_NAME);
    return withFileError(`Cannot open the access log ${path}`, () => {
      Deno.mkdirSync(directory, { recursive: true, mode: 0o700 });
      return new AccessLog(new RotatedFile({ path, suffix: ".0", max_bytes }));
    });
  }

  /** False after a line could not be written, until one can be again. */
  get healthy(): boolean {
    return this.#healthy;
  }

  /** Writes one line; a failure shows in {@linkcode healthy}. */
  write(decision: EgressDecision, outcome: Transfer): void {
    this.#healthy = this.#file.write(formatLogLine(decision, outcome));
  }

  close(): void {
    this.#file[Symbol.dispose]();
  }
}
