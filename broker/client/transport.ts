/**
 * One request to the broker, over its unix socket or over TCP. Over the socket it takes
 * no more than the socket, `--allow-read`, `--allow-write` and `--allow-net=unix:<path>`, and `--allow-sys=uid`: nothing is
 * sent to a socket that another user could have put there.
 */

import { type IncomingMessage, request as httpRequest } from "node:http";
import type { Clock } from "../../lib/clock.ts";
import { withDeadline } from "../../lib/deadline.ts";
import { messageOf, TaskdError } from "../../lib/errors.ts";
import { parseHttpAddress } from "../../lib/http/address.ts";
import { requireTrusted } from "../../lib/trusted_path.ts";
import { SOCKET_HOST } from "../api/socket_host.ts";

/** Where a broker is. */
export type BrokerAddress = { socket: string } | { addr: string };

export interface Sending {
  method: "GET" | "POST";
  /** With its query. */
  path: string;
  headers?: Readonly<Record<string, string>>;
  body?: string;
  signal?: AbortSignal | undefined;
}

/** An answer: its head, and its body as it comes. */
export interface Received extends Disposable {
  status: number;
  header(name: string): string;
  /** To be read once. Throws `broker_unreachable` when it breaks off, `interrupted` on the signal. */
  body: AsyncIterable<Uint8Array>;
}

export const HEAD_DEADLINE_MS = 120_000;

export interface TransportOptions {
  clock: Clock;
  head_deadline_ms: number;
}

/**
 * Sends a request and waits for the head of its answer.
 *
 * @throws {TaskdError} `broker_unreachable`, `denied`, `unavailable` when no head comes in time, or `interrupted`.
 */
export async function exchange(
  place: BrokerAddress,
  sending: Sending,
  { clock, head_deadline_ms }: TransportOptions,
): Promise<Received> {
  const { signal } = sending;
  if ("socket" in place) requireTrusted(place.socket, "socket");
  const attempt = Promise.withResolvers<IncomingMessage>();
  const bytes = sending.body === undefined ? undefined : new TextEncoder().encode(sending.body);
  const outgoing = httpRequest({
    ...addressOf(place),
    method: sending.method,
    path: sending.path,
    agent: false,
    headers: {
      host: "socket" in place ? SOCKET_HOST : place.addr,
      ...(bytes && { "content-type": "application/json", "content-length": bytes.length }),
      ...sending.headers,
    },
  });
  outgoing.on("response", attempt.resolve);
  outgoing.on("error", attempt.reject);
  const onAbort = () => {
    attempt.reject(interruptedBy(signal));
    outgoing.destroy();
  };
  signal?.addEventListener("abort", onAbort, { once: true });
  const dispose = () => {
    signal?.removeEventListener("abort", onAbort);
    outgoing.destroy();
  };
  try {
    if (signal?.aborted) onAbort();
    else outgoing.end(bytes);
    const late = () => new TaskdError("unavailable", `The broker has not answered within ${head_deadline_ms} ms`);
    const incoming = await withDeadline(attempt.promise, clock, head_deadline_ms, late);
    incoming.on("error", () => {});
    return {
      status: incoming.statusCode ?? 0,
      header: (name) => String(incoming.headers[name] ?? ""),
      body: bodyOf(incoming, signal),
      [Symbol.dispose]: dispose,
    };
  } catch (error) {
    dispose();
    throw explained(place, error);
  }
}

async function* bodyOf(incoming: IncomingMessage, signal: AbortSignal | undefined): AsyncGenerator<Uint8Array, void> {
  try {
    yield* incoming as AsyncIterable<Uint8Array>;
    if (!incoming.complete) throw new Error("it has not ended");
  } catch (error) {
    if (signal?.aborted) throw interruptedBy(signal);
    throw new TaskdError("broker_unreachable", "The broker's answer broke off", {
      cause: error,
      hint: "It may have been stopped; `taskd start` starts it",
    });
  }
  if (signal?.aborted) throw interruptedBy(signal);
}

function addressOf(place: BrokerAddress): { socketPath: string } | { host: string; port: number } {
  if ("socket" in place) return { socketPath: place.socket };
  const { hostname, port } = parseHttpAddress(place.addr);
  return { host: hostname, port };
}

function interruptedBy(signal: AbortSignal | undefined): TaskdError {
  const { reason } = signal ?? {};
  return reason instanceof TaskdError
    ? reason
    : new TaskdError("interrupted", "The request to the broker was aborted", { cause: reason });
}

function explained(place: BrokerAddress, error: unknown): TaskdError {
  if (error instanceof TaskdError) return error;
  const where = "socket" in place ? place.socket : place.addr;
  const reason = messageOf(error);
  const code = error instanceof Error ? (error as Error & { code?: unknown }).code : undefined;
  if (error instanceof Deno.errors.NotCapable || code === "EACCES" || code === "EPERM") {
    return new TaskdError("denied", `Cannot ask the broker at ${where}: ${reason}`, { cause: error });
  }
  const why = code === "ENOENT" || code === "ECONNREFUSED" ? "nothing listens there" : reason;
  return new TaskdError("broker_unreachable", `Cannot ask the broker at ${where}: ${why}`, {
    cause: error,
    hint: "Start it with: taskd start",
  });
}
