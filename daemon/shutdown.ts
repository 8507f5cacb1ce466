/**
 * The end of a daemon that loses nothing: running operations finish, every session is flushed, released and closed,
 * and subscribers receive the last events.
 */

import type { Clock } from "../lib/clock.ts";
import { withDeadline } from "../lib/deadline.ts";
import { messageOf } from "../lib/errors.ts";
import { formatAddress } from "../lib/store/names.ts";
import type { Dispatcher } from "./dispatch.ts";
import type { HttpServer } from "./http/server.ts";
import type { Janitor } from "./janitor.ts";
import type { KeyedMutex } from "../lib/keyed_mutex.ts";
import type { DaemonLog } from "./log.ts";
import type { Publisher } from "./publisher.ts";
import { keyOf, type Sessions } from "./sessions.ts";

/** How long a shutdown waits for running operations, and then for sessions to be flushed and closed. */
const SHUTDOWN_DEADLINE_MS = 60_000;
/** How long a shutdown waits for subscribers to read what they were sent. */
const LAST_EVENTS_DEADLINE_MS = 2_000;

export interface UnclosedSession {
  address: string;
  /** Why, for a person. */
  error: string;
}

export interface RunningParts {
  sessions: Sessions;
  locks: KeyedMutex;
  dispatcher: Dispatcher;
  publisher: Publisher;
  janitor: Janitor;
  http: HttpServer | undefined;
  clock: Clock;
  log: DaemonLog;
}

/** Ends what runs, within its deadlines; resolves with the sessions that could not be flushed and closed. */
export async function drainDaemon(parts: RunningParts): Promise<UnclosedSession[]> {
  const { sessions, dispatcher, publisher, janitor, http, clock, log } = parts;
  log(`stopping: sessions=${sessions.size}`);
  http?.stopAccepting();
  const swept = janitor.stop();
  await withDeadline(dispatcher.stop(), clock, SHUTDOWN_DEADLINE_MS).catch(() =>
    log("stopping: operations still run; they are cut off")
  );
  await withDeadline(swept, clock, SHUTDOWN_DEADLINE_MS).catch(() =>
    log("stopping: the janitor still runs; it is cut off")
  );
  const unclosed = await closeSessions(parts);
  await publisher.close(LAST_EVENTS_DEADLINE_MS);
  return unclosed;
}

async function closeSessions({ sessions, locks, clock, log }: RunningParts): Promise<UnclosedSession[]> {
  const unclosed = new Map<string, UnclosedSession>();
  const addresses = sessions.addresses();
  for (const address of addresses) {
    unclosed.set(keyOf(address), { address: formatAddress(address), error: "it was not closed in time" });
  }
  const closing = addresses.map(async (address) => {
    try {
      const { error } = await locks.run([keyOf(address)], () => sessions.close(address));
      if (error === undefined) unclosed.delete(keyOf(address));
      else unclosed.get(keyOf(address))!.error = error.message;
    } catch (error) {
      unclosed.get(keyOf(address))!.error = messageOf(error);
    }
  });
  await withDeadline(Promise.all(closing), clock, SHUTDOWN_DEADLINE_MS).catch(() => {});
  for (const { address, error } of unclosed.values()) log(`stopping: ${address}: ${error}`);
  return [...unclosed.values()];
}
