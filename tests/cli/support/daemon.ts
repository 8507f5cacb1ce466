/**
 * The program's own daemon, in a process of its own.
 */

import type { Place } from "./taskd.ts";
import { textLines } from "../../support/text_lines.ts";

/** A daemon of the program's own, serving once this resolves; stopped by SIGTERM at the end. */
export async function startDaemon(place: Place, ...flags: string[]) {
  const child = place.start("serve", "--json", "-flush-every", "0", ...flags);
  const log = child.stderr.getReader();
  const errors = readAll(log);
  const lines = textLines(child.stdout);
  const first = await lines.next();
  if (first.done) throw new Error(`The daemon did not start: ${await errors}`);
  return {
    hello: JSON.parse(first.value),
    pid: child.pid,
    /** Closes the pipe that the daemon writes its log to. */
    leaveLog: () => log.cancel(),
    stop: async (signal: Deno.Signal = "SIGTERM") => {
      child.kill(signal);
      const { code } = await child.status;
      return { code, errors: await errors };
    },
    [Symbol.asyncDispose]: async () => {
      try {
        child.kill("SIGTERM");
      } catch {
        // It was stopped by the test.
      }
      await child.status;
      await errors;
      await lines.return();
    },
  };
}

async function readAll(reader: ReadableStreamDefaultReader<Uint8Array>): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  for (let piece = await reader.read(); !piece.done; piece = await reader.read()) {
    text += decoder.decode(piece.value, { stream: true });
  }
  return text;
}
