/**
 * What becomes of the tasks that a broker runs when it is to end: they would end with it, so they are named first. A
 * person at a terminal is asked; a script says it with --drain or --now, and without either they end, as the contract
 * has it of `start`.
 */

import { BrokerClient } from "../../broker/client/client.ts";
import type { FoundBroker } from "../../broker/client/lifecycle.ts";
import type { TaskSummary } from "../../broker/task/schema.ts";
import { type Stage, STAGES } from "../../broker/task/stages.ts";
import { type Clock, systemClock } from "../../lib/clock.ts";
import { TaskdError } from "../../lib/errors.ts";
import { plural } from "../../lib/text/plural.ts";
import type { Args } from "../plan/args.ts";
import { processTerminal, Prompt } from "../setup/prompt.ts";
import type { Io } from "../text/io.ts";
import { shortId } from "./_task_text.ts";

const POLL_MS = 500;
const MAX_NAMED = 20;
const INSTRUCTION_CHARS = 60;
/** The stages whose work is lost with the broker. */
const LOST = (Object.keys(STAGES) as Stage[]).filter((stage) => STAGES[stage].at_restart.kind === "fail");

/** Whether running tasks may end with their broker, or are waited for; `undefined` asks, where a person can be. */
export type TasksEnd = "now" | "drain" | undefined;

export function endingOf(args: Args): TasksEnd {
  const [now, drain] = [args.on("now"), args.on("drain")];
  if (now && drain) {
    throw new TaskdError("usage", "Cannot end tasks now and wait for them", { hint: "Give --now or --drain" });
  }
  return now ? "now" : drain ? "drain" : undefined;
}

export interface SettleOptions {
  ending: TasksEnd;
  /** Present where a person can be asked. */
  ask?: (tasks: readonly TaskSummary[]) => Promise<"now" | "drain">;
  /** The tasks that would end. */
  list: () => Promise<TaskSummary[]>;
  say: (text: string) => void;
  clock: Clock;
  signal: AbortSignal;
}

/** Returns when the broker may end; throws `interrupted` when a person wants it to go on. */
export async function settleRunning({ ending, ask, list, say, clock, signal }: SettleOptions): Promise<void> {
  let tasks = await list();
  if (tasks.length === 0) return;
  const chosen = ending ?? await ask?.(tasks) ?? "now";
  if (chosen === "now") {
    if (ask === undefined || ending !== undefined) say(`These tasks end with the broker:\n${named(tasks)}`);
    return;
  }
  say(`Waiting for ${plural(tasks.length, "task")} to come to the gate or to end:\n${named(tasks)}`);
  while (tasks.length > 0) {
    await clock.sleep(POLL_MS, signal);
    tasks = await list();
  }
}

/** As {@linkcode settleRunning} for the broker that was found. */
export async function settleFound(found: FoundBroker, args: Args, io: Io): Promise<void> {
  if (found.state !== "serving" || found.health.running === 0) return;
  const broker = new BrokerClient({ socket: found.socket }, { signal: io.signal });
  const asks = !io.json && Deno.stdin.isTerminal() && io.errorIsTerminal;
  await settleRunning({
    ending: endingOf(args),
    ...(asks ? { ask: (tasks) => askPerson(new Prompt(processTerminal, io.signal), tasks) } : {}),
    list: async () =>
      (await Promise.all(LOST.map((stage) => broker.tasks({ stage, limit: 1_000 })))).flatMap(
        ({ tasks }) => tasks,
      ),
    say: (text) => io.note(text),
    clock: systemClock,
    signal: io.signal,
  });
}

async function askPerson(prompt: Prompt, tasks: readonly TaskSummary[]): Promise<"now" | "drain"> {
  prompt.say(`${plural(tasks.length, "task")} would end with the broker:\n${named(tasks)}`);
  const answer = await prompt.choose("What shall become of them", [
    { value: "wait", help: "the broker ends when they are at the gate or have ended" },
    { value: "now", help: "they end, and what their agents have done is lost" },
    { value: "keep", help: "nothing happens: the broker runs on" },
  ], "wait");
  if (answer !== "keep") return answer === "wait" ? "drain" : "now";
  throw new TaskdError("interrupted", "The broker runs on, as you chose");
}

function named(tasks: readonly TaskSummary[]): string {
  const lines = tasks.slice(0, MAX_NAMED).map(({ id, stage, repo, instruction }) =>
    `  ${shortId(id)}  ${stage}  ${repo}  ${instruction.slice(0, INSTRUCTION_CHARS)}`
  );
  return [...lines, ...(tasks.length > MAX_NAMED ? [`  and ${tasks.length - MAX_NAMED} more`] : [])].join("\n");
}
