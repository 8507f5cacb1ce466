/**
 * One broker per home directory, and how one that runs is found, ended and replaced.
 *
 * A serving broker holds a lock of the operating system below `~/.taskd`, which the kernel frees however its holder
 * dies. What the lock's file says is believed only while the lock is held, and a process is only ever signalled when it
 * also answers for itself on its socket with the very number that the lock names: a number that was left behind, and
 * may be another program's by now, ends no other program.
 */

import type { Clock } from "../../lib/clock.ts";
import { hasCode, TaskdError } from "../../lib/errors.ts";
import type { DaemonLock } from "../../lib/store/daemon_lock.ts";
import type { Health } from "../api/wire.ts";
import { BrokerClient } from "./client.ts";
import { lockHome, ownBroker } from "./home_lock.ts";
import { taskdHome } from "../settings/load.ts";
import type { AskProgram } from "../sandbox/host_programs.ts";

export type BrokerHealth = Omit<Health, "ok">;

export type AskHealth = (socket: string) => Promise<BrokerHealth | undefined>;

/** A broker that serves answers at once. */
const ANSWER_MS = 5_000;

export function healthOverSocket(clock: Clock): AskHealth {
  return async (socket) => {
    try {
      return await new BrokerClient({ socket }, { clock, head_deadline_ms: ANSWER_MS }).health();
    } catch (error) {
      if (hasCode(error, "broker_unreachable", "unavailable")) return undefined;
      throw error;
    }
  };
}

export type FoundBroker =
  | { state: "none" }
  | { state: "serving"; pid: number; socket: string; health: BrokerHealth }
  /** It holds the lock and does not answer: it is starting, ending, or stuck. */
  | { state: "silent"; pid: number; socket?: string };

export interface FindBrokerOptions {
  home: string;
  askHealth: AskHealth;
  clock: Clock;
}

const POLL_MS = 25;
/** How long a broker that holds the lock may take to answer or to go before it counts as silent. */
const SETTLE_MS = 5_000;

export async function findBroker(options: FindBrokerOptions): Promise<FoundBroker> {
  const { home, askHealth, clock } = options;
  const deadline = clock.monotonic() + SETTLE_MS;
  for (;;) {
    const info = await holder(home, clock);
    if (info === undefined) return { state: "none" };
    const { pid, socket } = info;
    const health = socket === undefined ? undefined : await askHealth(socket);
    if (socket !== undefined && health?.pid === pid) return { state: "serving", pid, socket, health };
    if (clock.monotonic() >= deadline) return { state: "silent", pid, ...(socket === undefined ? {} : { socket }) };
    await clock.sleep(POLL_MS);
  }
}

async function holder(home: string, clock: Clock) {
  try {
    return await ownBroker(home, clock);
  } catch (error) {
    if (hasCode(error, "not_found")) return undefined;
    throw error;
  }
}

export interface StopOptions extends FindBrokerOptions {
  terminate: (pid: number) => Promise<void>;
  timeout_ms: number;
  signal?: AbortSignal | undefined;
}

/**
 * Asks the broker to end, and waits until it has.
 *
 * @returns Its process id; undefined when none ran.
 * @throws {TaskdError} `timed_out` when it does not end in time, `broker_unreachable` when it does not answer.
 */
export async function stopBroker(options: StopOptions): Promise<number | undefined> {
  const { clock, home, terminate, timeout_ms, signal } = options;
  const found = await findBroker(options);
  if (found.state === "none") return undefined;
  if (found.state === "silent") throw silent(found);
  const { pid } = found;
  await terminate(pid);
  const deadline = clock.monotonic() + timeout_ms;
  while ((await holder(home, clock))?.pid === pid) {
    if (clock.monotonic() >= deadline) {
      throw new TaskdError("timed_out", `The broker (pid ${pid}) was asked to stop and has not within its time`, {
        hint: `Wait longer with --timeout, or end it with: kill -9 ${pid}; the next start puts its tasks in order`,
      });
    }
    await clock.sleep(POLL_MS, signal);
  }
  return pid;
}

/** Signals by the program `kill`, which can be named in a permission: signalling by oneself needs that for every program. */
export function terminateBy(ask: AskProgram, path: string): (pid: number) => Promise<void> {
  return async (pid) => {
    // One that has ended meanwhile is what was asked for; one that cannot be ended is reported when it does not end.
    await ask(path, ["-TERM", String(pid)]);
  };
}

function silent({ pid, socket }: { pid: number; socket?: string }): TaskdError {
  const where = socket === undefined ? "has not opened its socket" : `does not answer on ${socket}`;
  return new TaskdError("broker_unreachable", `A broker (pid ${pid}) is running, but ${where}`, {
    hint: `It may be starting or ending: try again; if it stays so, look at process ${pid} and end it with kill`,
  });
}

/**
 * Says whose broker it is that answers on the socket of a home directory, whose own broker the caller is: that of
 * another home directory, because by default all of a user's would listen there. Other errors are thrown as they are.
 */
export async function explainForeignSocket(
  error: unknown,
  { home, socket, askHealth }: { home: string; socket: string; askHealth: AskHealth },
): Promise<never> {
  if (!hasCode(error, "broker_running")) throw error;
  const other = await askHealth(socket).catch(() => undefined);
  const pid = other === undefined ? "" : ` (pid ${other.pid})`;
  throw new TaskdError(
    "broker_running",
    `Cannot start: the broker of another home directory${pid} answers on ${socket}`,
    {
      cause: error,
      hint: `Stop it, or name a socket for this home: broker.socket in ${taskdHome(home)}/config.yaml or BROKER_SOCKET`,
    },
  );
}

/**
 * Makes this process the broker of a home directory; the caller releases the lock once it serves no more.
 *
 * @throws {TaskdError} `broker_running`; otherwise as {@linkcode lockHome}.
 */
export async function claimHome(home: string, clock: Clock): Promise<DaemonLock> {
  try {
    return await lockHome(home, clock);
  } catch (error) {
    if (hasCode(error, "daemon_running")) {
      throw new TaskdError("broker_running", `Cannot start: another broker serves ${taskdHome(home)} already`, {
        cause: error,
        hint: "Another start was faster: run taskd doctor, or start again to replace it",
      });
    }
    throw error;
  }
}
