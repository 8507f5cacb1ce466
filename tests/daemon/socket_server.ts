/**
 * For tests of connections: a real socket served by real connections, with handlers that a test stages.
 */

import { join } from "@std/path/join";
import { type Clock, systemClock } from "../../lib/clock.ts";
import { Connections } from "../../daemon/connections.ts";
import { Dispatcher, type Handlers } from "../../daemon/dispatch.ts";
import { Publisher } from "../../daemon/publisher.ts";
import { bindSocket } from "../../lib/unix_socket.ts";

/** A served socket. */
export interface TestServer extends AsyncDisposable {
  path: string;
  publisher: Publisher;
  dispatcher: Dispatcher;
  connections: Connections;
  log: string[];
}

/** Serves `handlers` on a socket of its own; an operation that was not staged is a defect. */
export async function testServer(
  handlers: Partial<Handlers>,
  { clock = systemClock, ...limits }: { write_deadline_ms?: number; max_connections?: number; clock?: Clock } = {},
): Promise<TestServer> {
  const directory = await Deno.makeTempDir();
  const path = join(directory, "s.sock");
  const log: string[] = [];
  const publisher = new Publisher({ clock, ...limits });
  const dispatcher = new Dispatcher(handlers as Handlers, (entry) => log.push(entry));
  const options = { dispatcher, publisher, clock, log: (entry: string) => log.push(entry) };
  const connections = new Connections({ ...options, ...limits });
  const socket = await bindSocket(path);
  const accepting = connections.accept(socket.listener);
  return {
    path,
    publisher,
    dispatcher,
    connections,
    log,
    [Symbol.asyncDispose]: async () => {
      connections.close();
      socket.close();
      await accepting;
      await Deno.remove(directory, { recursive: true });
    },
  };
}
