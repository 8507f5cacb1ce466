/**
 * A client of the branch store's daemon (`taskd serve`): every operation of the store, live sessions, and the daemon's
 * events, over its unix socket.
 *
 * A daemon owns its store: while one runs, other processes go through it. Paths in arguments and results are the
 * daemon's, times are ISO 8601 in UTC, sizes bytes; what ends in `_ms` is milliseconds.
 *
 * @example Start a daemon, open a live session, and write to it
 * ```ts
 * import { connect } from "@taskd/taskd/client";
 * import { DatabaseSync } from "node:sqlite";
 *
 * const directory = await Deno.makeTempDir();
 * const socket = `${directory}/taskd.sock`;
 * const daemon = new Deno.Command(Deno.execPath(), {
 *   args: [
 *     ...["run", "--quiet", "-A", "--no-prompt", "--unstable-worker-options"],
 *     ...[import.meta.resolve("@taskd/taskd/cli"), "serve", "--store", `${directory}/store`, "--socket", socket, "--json"],
 *   ],
 *   stdout: "piped",
 * }).spawn();
 * // It prints one line as soon as it serves.
 * const reader = daemon.stdout.getReader();
 * await reader.read();
 *
 * using client = await connect(socket);
 * await client.call("create", { db: "shop" });
 * const { checkout } = await client.call("open", { db: "shop", branch: "main" });
 * const db = new DatabaseSync(checkout);
 * db.exec("CREATE TABLE item (name TEXT); INSERT INTO item VALUES ('tea')");
 * db.close();
 * // Durable in the store from here on.
 * await client.call("flush", { db: "shop", branch: "main" });
 *
 * await client.call("shutdown", {});
 * await daemon.status;
 * await reader.cancel();
 * await Deno.remove(directory, { recursive: true });
 * ```
 *
 * @module
 */

export { type Client, connect, type ConnectOptions, subscribe } from "./client.ts";
export type {
  AnyDaemonEvent,
  AnyEventType,
  CallableOp,
  DaemonEvent,
  EventDetails,
  EventOf,
  EventType,
  MoreEventDetails,
  OpAnswer,
  OpArgs,
  OpName,
  OpTypes,
} from "../protocol/messages.ts";
