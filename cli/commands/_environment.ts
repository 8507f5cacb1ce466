/**
 * What the commands of the group Broker give to the broker's library: variables, programs,
 * the broker that runs. Only what the command table grants is asked for.
 */

import { type AskProgram, askProgram } from "../../broker/sandbox/host_programs.ts";
import { type FindBrokerOptions, healthOverSocket, terminateBy } from "../../broker/client/lifecycle.ts";
import { HOST_VARIABLES, TOKEN_VARIABLES } from "../../broker/git/credentials.ts";
import { BrokerClient } from "../../broker/client/client.ts";
import type { PolicyView } from "../../broker/settings/policy_view.ts";
import { systemClock } from "../../lib/clock.ts";
import { TaskdError } from "../../lib/errors.ts";
import type { Args } from "../plan/args.ts";

/** A variable of the environment; those that the command may not read count as not set. */
export function environment(args: Args): (name: string) => string | undefined {
  const { variables, tool_variables } = args.host;
  const granted = new Set([...variables, ...tool_variables]);
  return (name) => {
    if (!granted.has(name)) return undefined;
    try {
      return Deno.env.get(name) || undefined;
    } catch (error) {
      if (error instanceof Deno.errors.NotCapable) return undefined;
      throw error;
    }
  };
}

/** Asks the host's programs; with `credentials` those that log in to code hosts. */
export function asking(args: Args, signal: AbortSignal, options: { credentials?: boolean } = {}): AskProgram {
  const variables = options.credentials ? [...HOST_VARIABLES, ...TOKEN_VARIABLES] : [];
  return askProgram({ env: environment(args), variables, signal });
}

export function findOptions(args: Args): FindBrokerOptions {
  return { home: args.broker.home, clock: systemClock, askHealth: healthOverSocket(systemClock) };
}

export function terminating(args: Args, signal: AbortSignal): (pid: number) => Promise<void> {
  const [path] = args.host.programs.kill;
  if (path === undefined) throw new TaskdError("unavailable", "Cannot end a broker: there is no program that does");
  return terminateBy(asking(args, signal), path);
}

/** A broker answers this from memory: one that takes longer hangs, and counts as one that does not answer. */
const POLICY_DEADLINE_MS = 10_000;

/** The settings of the broker at a socket; null when it does not say them. */
export async function livePolicy(socket: string, signal: AbortSignal): Promise<PolicyView | null> {
  if (socket === "") return null;
  try {
    return await new BrokerClient({ socket }, { signal, head_deadline_ms: POLICY_DEADLINE_MS }).policy();
  } catch (error) {
    if (error instanceof TaskdError && error.code !== "interrupted") return null;
    throw error;
  }
}
