/**
 * The process that does the built-in agent's calls: it has the task's files and no network. The agent's process may have
 * been taken over, so every call is checked here as what a stranger wrote.
 *
 * Calls are done one after the other: what one has checked, no other changes before it is used. When the input ends, the
 * broker is gone, and so is this process, whatever it is doing.
 */

import { systemClock } from "../../lib/clock.ts";
import { encodeLine } from "../../lib/protocol/lines.ts";
import {
  type CallAnswer,
  type CommandRequest,
  type CommandResult,
  encodeCommand,
  inputLines,
  parseCall,
  print,
  type ToolCall,
} from "./calls.ts";
import { type FilesConfig, readConfig } from "./config.ts";
import { shortLine } from "./progress.ts";
import { AgentDatabases } from "./sql_tool.ts";
import { callTool } from "./tools.ts";
import { WorkTree } from "./work_tree.ts";

/**
 * Does the calls of `lines` with `work`, one after the other, until the lines end, which also ends a call that is under
 * way. Rejects for a line that is no call, and for one that comes before the call before it is answered. A call may ask
 * the broker for a command meanwhile: the next line is then its result.
 */
export async function serveCalls(
  lines: AsyncIterable<string>,
  work: (call: ToolCall, runCommand: (request: CommandRequest) => Promise<CommandResult>) => Promise<CallAnswer>,
  onAnswer: (line: Uint8Array) => void,
): Promise<void> {
  const failure = Promise.withResolvers<never>();
  let is_busy = false;
  let result: PromiseWithResolvers<CommandResult> | undefined;
  const runCommand = (request: CommandRequest): Promise<CommandResult> => {
    result = Promise.withResolvers();
    onAnswer(encodeCommand(request));
    return result.promise;
  };
  const serve = async () => {
    for await (const line of lines) {
      if (result !== undefined) {
        result.resolve(JSON.parse(line));
        result = undefined;
        continue;
      }
      if (is_busy) throw new Error("a call came before the one before it was answered");
      is_busy = true;
      const done = work(parseCall(line), runCommand).then((answer) => {
        is_busy = false;
        onAnswer(encodeLine(answer));
      });
      done.catch(failure.reject);
    }
  };
  await Promise.race([serve(), failure.promise]);
}

export async function runFiles(): Promise<number> {
  const lines = inputLines();
  const { work_dir, links, databases, runs } = await readConfig<FilesConfig>(lines);
  const context = {
    tree: new WorkTree(work_dir, { links }),
    clock: systemClock,
    ...(databases.length === 0 ? {} : { databases: new AgentDatabases(databases, systemClock) }),
  };
  const work = async (
    call: ToolCall,
    runCommand: (request: CommandRequest) => Promise<CommandResult>,
  ): Promise<CallAnswer> => {
    try {
      const answer = await callTool(call.name, call.arguments, { ...context, ...(runs ? { runCommand } : {}) });
      return { ...answer, summary: shortLine(answer.summary) };
    } catch (error) {
      // A message would tell the agent where its work folder is.
      return { failed: `the task's files cannot be used: ${error instanceof Error ? error.name : "unknown error"}` };
    }
  };
  await serveCalls(lines, work, print);
  return 0;
}

if (import.meta.main) Deno.exit(await runFiles());
