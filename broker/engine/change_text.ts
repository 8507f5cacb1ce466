/**
 * The words of a change: its commit's message and its pull request's title and body. All of them are bound by the digest
 * that was approved, except their last line, which has that digest.
 */

import { sanitizeLine } from "../../lib/text/sanitize.ts";
import type { TaskRecord } from "../task/schema.ts";

const MAX_TITLE_CHARS = 72;

type Worded = Pick<TaskRecord, "id" | "agent" | "instruction">;

export function titleOf({ instruction, id }: Worded): string {
  const [first = ""] = instruction.split("\n").map((line) => sanitizeLine(line.trim())).filter((line) => line !== "");
  const title = first.length > MAX_TITLE_CHARS ? `${first.slice(0, MAX_TITLE_CHARS - 3).toWellFormed()}...` : first;
  return title || `Task ${id.slice(0, 12)}`;
}

export function commitMessage(record: Worded): string {
  return `${titleOf(record)}\n\nTaskd-Task: ${record.id}\nTaskd-Agent: ${record.agent}\n`;
}

export function pullRequestBody(record: Worded): string {
  // As a code block: an instruction is the operator's text, and no markup of the page.
  const quoted = record.instruction.split("\n").map((line) => `    ${line}`).join("\n");
  return `Made by an agent (${record.agent}) and approved by a person.\n\n${quoted}\n\nTaskd-Task: ${record.id}\n`;
}

export function withDigest(text: string, diff_sha256: string): string {
  return `${text}Taskd-Diff: ${diff_sha256}\n`;
}
