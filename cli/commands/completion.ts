/**
 * The command `taskd completion`.
 */

import { TaskdError } from "../../lib/errors.ts";
import type { Args } from "../plan/args.ts";
import { completionScript, SHELLS } from "./completion_script.ts";
import type { Io } from "../text/io.ts";

export interface CompletionResult {
  shell: string;
  script: string;
}

export function run(args: Args, _io: Io): Promise<CompletionResult> {
  const word = args.positional("shell");
  const shell = SHELLS.find((each) => each === word);
  if (shell === undefined) {
    const message = `There is no completion for ${JSON.stringify(word.slice(0, 200))}`;
    return Promise.reject(new TaskdError("usage", message, { hint: `Shells: ${SHELLS.join(", ")}` }));
  }
  return Promise.resolve({ shell, script: completionScript(shell) });
}

export function render(result: CompletionResult): string {
  return result.script;
}
