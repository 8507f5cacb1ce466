/** The instruction of a task, from where a person has it: the call itself, a file, or stdin. */

import { MAX_INSTRUCTION_CHARS } from "../../broker/task/schema.ts";
import { TaskdError } from "../../lib/errors.ts";
import { fileError } from "../../lib/fs.ts";

/**
 * Reads it from the word of the call, of which `-` is stdin, or from a file, an absolute path.
 *
 * @throws {TaskdError} `usage` when there is none, or more than one; `too_large`; the system's error for the file.
 */
export async function readInstruction(
  { word, file }: { word: string | undefined; file: string | undefined },
  signal: AbortSignal,
): Promise<string> {
  const hint = "Write it as the second argument, name a file with --file, or write - to read stdin";
  if (word !== undefined && file !== undefined) {
    throw new TaskdError("usage", "Cannot take two instructions: one is in the call, another in --file", { hint });
  }
  if (word === undefined && file === undefined) {
    throw new TaskdError("usage", "Cannot submit a task without an instruction", { hint });
  }
  const text = file !== undefined
    ? await fromFile(file, signal)
    : word === "-"
    ? await collect(Deno.stdin.readable, signal, "stdin")
    : word!;
  if (text.trim() === "") throw new TaskdError("usage", "Cannot submit a task: its instruction is empty", { hint });
  if (text.length > MAX_INSTRUCTION_CHARS) throw tooLong("the instruction");
  return text;
}

async function fromFile(path: string, signal: AbortSignal): Promise<string> {
  try {
    using file = await Deno.open(path, { read: true });
    return await collect(file.readable, signal, path);
  } catch (error) {
    throw error instanceof TaskdError ? error : fileError(error, `Cannot read the instruction from ${path}`);
  }
}

async function collect(stream: ReadableStream<Uint8Array>, signal: AbortSignal, from: string): Promise<string> {
  let text = "";
  try {
    for await (const piece of stream.pipeThrough(new TextDecoderStream("utf-8", { fatal: true }), { signal })) {
      text += piece;
      if (text.length > MAX_INSTRUCTION_CHARS) throw tooLong(from);
    }
  } catch (cause) {
    if (!(cause instanceof TypeError)) throw cause;
    throw new TaskdError("usage", `Cannot read the instruction from ${from}: it is not text in UTF-8`, { cause });
  }
  return text;
}

function tooLong(from: string): TaskdError {
  return new TaskdError(
    "too_large",
    `Cannot take the instruction from ${from}: it has more than ${MAX_INSTRUCTION_CHARS} characters`,
    { hint: "Put the material into the repository and refer to it" },
  );
}
