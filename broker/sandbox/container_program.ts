/**
 * Calls the program that keeps containers, with nothing of the broker's environment but what it finds its own state by.
 */

import * as v from "valibot";
import type { Clock } from "../../lib/clock.ts";
import { TaskdError } from "../../lib/errors.ts";
import { parseJson } from "../../lib/text/json.ts";
import { sanitizeLine } from "../../lib/text/sanitize.ts";
import { runProcess } from "../../lib/process.ts";
import { type ProgramOutput, setVariables, TOOL_VARIABLES } from "./host_programs.ts";

/** Starting may have to wait for a disk; a program that hangs is not waited for. */
const DEADLINE_MS = 120_000;
const MAX_BYTES = 4 << 20;

export interface ContainerProgramOptions {
  path: string;
  env: (name: string) => string | undefined;
  clock: Clock;
}

export class ContainerProgram {
  readonly path: string;
  readonly env: Readonly<Record<string, string>>;
  readonly #clock: Clock;

  constructor({ path, env, clock }: ContainerProgramOptions) {
    this.path = path;
    this.#clock = clock;
    this.env = {
      ...setVariables(env, TOOL_VARIABLES),
      PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
      LC_ALL: "C",
    };
  }

  /** Runs the program; a failure is an answer too. */
  async ask(
    args: readonly string[],
    options: { stdin?: string | undefined; attempted?: string; signal?: AbortSignal | undefined } = {},
  ): Promise<ProgramOutput> {
    const { stdin, attempted = `Cannot run ${this.path} ${args[0]}`, signal } = options;
    const { code, stdout, stderr } = await runProcess(this.path, {
      args,
      env: this.env,
      ...(stdin === undefined ? {} : { stdin: new TextEncoder().encode(stdin) }),
      deadline_ms: DEADLINE_MS,
      max_bytes: MAX_BYTES,
      clock: this.#clock,
      attempted,
      signal,
    });
    return { code, stdout: new TextDecoder().decode(stdout), stderr };
  }

  /** Runs the program and returns its output; throws `sandbox_failed` with its complaint. */
  async do(args: readonly string[], attempted: string, signal?: AbortSignal): Promise<string> {
    const answer = await this.ask(args, { attempted, signal });
    if (answer.code !== 0) throw refused(attempted, answer);
    return answer.stdout;
  }
}

/** The JSON that a program printed; throws `sandbox_failed` with what it printed instead. */
export function printed<const Schema extends v.GenericSchema>(
  schema: Schema,
  stdout: string,
  attempted: string,
): v.InferOutput<Schema> {
  const { success, output } = v.safeParse(schema, parseJson(stdout));
  if (success) return output;
  const said = sanitizeLine(stdout.trim()).slice(0, 300) || "nothing";
  throw new TaskdError("sandbox_failed", `${attempted}: the answer is not understood: ${said}`);
}

export function refused(attempted: string, answer: ProgramOutput, hint?: string): TaskdError {
  return new TaskdError("sandbox_failed", `${attempted}: ${complaint(answer)}`, { hint });
}

export function refusedImage(attempted: string, answer: ProgramOutput, image: string): TaskdError {
  if (!/image not known|no such image|not found locally|unable to find image/i.test(answer.stderr)) {
    return refused(attempted, answer, "taskd doctor says what the runtime needs");
  }
  return new TaskdError("sandbox_failed", `${attempted}: there is no image ${image}`, {
    hint: "Build it with: taskd setup",
  });
}

export function complaint({ code, stderr }: ProgramOutput): string {
  const last = stderr.trim().split("\n").findLast((line) => line.trim() !== "");
  return last === undefined ? `it ended with code ${code}` : sanitizeLine(last).slice(0, 500);
}
