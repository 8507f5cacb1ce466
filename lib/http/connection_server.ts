/**
 * HTTP servers of one connection each.
 *
 * Deno.serve bounds neither its connections nor their time, and any process of the machine can connect to a port of
 * loopback. So each connection that a guard accepts gets a Deno.serve of its own, on a unix socket in a directory that only
 * its owner can enter; the socket's file is gone once the guard is connected, and then nothing can connect any more. To
 * make one costs 0.07 ms and four descriptors a connection. One that runs out of descriptors ends itself alone.
 */

import { TaskdError } from "../errors.ts";
import { fileError, lstatIfPresent, removeIfPresent } from "../fs.ts";
import { guardedSocketOf } from "../socket_path.ts";

/** Descriptors of one connection of a guard: the client's, both ends to its server, and what that listens on. */
export const DESCRIPTORS_OF_CONNECTION = 4;

/** Another server that ends removes what is at the path of all, which is why a connection may have to be tried again. */
const ATTEMPTS = 20;

/** Answers a request; `completed` settles when its response has been handed over, or cannot be. */
type Answer = (request: Request, completed: Promise<void>) => Response | Promise<Response>;

export interface ConnectionServer {
  /** The guard's end. */
  readonly conn: Deno.Conn;
  /** Ends the server once its requests have been answered. */
  end(): void;
}

export class ConnectionServers {
  readonly #directory: string;
  readonly #path: string;
  readonly #failed: (error: unknown) => Response;
  readonly #running = new Set<Deno.HttpServer>();
  #last: Promise<unknown> = Promise.resolve();
  #closed = false;

  /**
   * Makes the directory beside the daemon's socket, and requires `--allow-net=unix:` the file in it.
   *
   * @throws {TaskdError} `already_exists` when something else is there, `denied` and what else systems refuse.
   */
  constructor(daemon_socket: string, failed: (error: unknown) => Response) {
    const { directory, socket } = guardedSocketOf(daemon_socket);
    this.#directory = directory;
    this.#path = socket;
    this.#failed = failed;
    makePrivate(directory);
    removeIfPresent(socket);
  }

  /** Starts a server and connects to it; one after the other, for all have one path. */
  open(answer: Answer): Promise<ConnectionServer> {
    const opening = this.#last.then(() => this.#open(answer));
    this.#last = opening.catch(() => {});
    return opening;
  }

  /** Resolves when every request has been answered; a connection that asks for nothing is ended. */
  async close(): Promise<void> {
    this.#closed = true;
    await this.#last;
    await Promise.all([...this.#running].map((server) => server.shutdown().catch(() => {})));
    removeIfPresent(this.#path);
    removeIfPresent(this.#directory);
  }

  async #open(answer: Answer): Promise<ConnectionServer> {
    for (let attempt = 1;; attempt++) {
      if (this.#closed) throw new TaskdError("stopping", "The server ends");
      const server = this.#start(answer);
      try {
        const conn = await Deno.connect({ transport: "unix", path: this.#path });
        removeIfPresent(this.#path);
        return { conn, end: () => void server.shutdown().catch(() => {}) };
      } catch (error) {
        await server.shutdown().catch(() => {});
        if (attempt === ATTEMPTS) throw error;
      }
    }
  }

  #start(answer: Answer): Deno.HttpServer {
    const options = { path: this.#path, onListen: () => {}, onError: this.#failed };
    const server = Deno.serve(options, (request, info) => answer(request, info.completed.catch(() => {})));
    this.#running.add(server);
    // It fails alone, such as for want of a descriptor: the guard then sees the connection end.
    server.finished.catch(() => {}).finally(() => this.#running.delete(server));
    return server;
  }
}

function makePrivate(directory: string): void {
  try {
    Deno.mkdirSync(directory, { mode: 0o700 });
  } catch (error) {
    if (!(error instanceof Deno.errors.AlreadyExists)) throw fileError(error, `Cannot make ${directory}`);
    const info = lstatIfPresent(directory);
    if (info?.isDirectory && (info.mode! & 0o777) === 0o700 && info.uid === Deno.uid()) return;
    throw new TaskdError("already_exists", `Cannot use ${directory}: it is not a directory of this user's alone`, {
      hint: "A daemon makes it with mode 0700: remove what is there",
    });
  }
}
