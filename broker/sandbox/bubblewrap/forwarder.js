// @ts-check
/**
 * The forwarder inside of a sandbox: what connects to a port of its loopback reaches the socket of the gateway or of the
 * proxy. Nothing else leads out of the sandbox's network.
 *
 * It is started with pairs of a port and a socket's path among its words, says `ready` once it listens on all of them,
 * and ends with the sandbox. It imports nothing, and is no TypeScript: a sandbox gets its text, and deno, and no cache,
 * and translating it would take longer than all the rest of a start. In a compiled program it is a helper.
 */

/** Bytes that are on their way in one direction of a connection. */
const BUFFER_BYTES = 64 << 10;
/** Milliseconds until the next try, once the process is out of descriptors. */
const RETRY_MS = 50;

/**
 * Gives each connection its own to the socket.
 *
 * @param {Deno.TcpListener} listener
 * @param {string} path
 */
async function acceptAll(listener, path) {
  for (;;) {
    try {
      void connect(await listener.accept(), path);
    } catch {
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    }
  }
}

/**
 * Forwards until both directions have ended, or one has failed.
 *
 * @param {Deno.TcpConn} client
 * @param {string} path
 */
async function connect(client, path) {
  let server;
  try {
    client.setNoDelay(true);
    server = await Deno.connect({ transport: "unix", path });
  } catch {
    return client.close();
  }
  try {
    await Promise.all([copy(client, server), copy(server, client)]);
  } catch {
    // One of them has reset the connection; the other sees its end.
  } finally {
    client.close();
    server.close();
  }
}

/**
 * Copies until the end, which it passes on: a client may have sent all and still wait for the answer.
 *
 * @param {Deno.TcpConn | Deno.UnixConn} from
 * @param {Deno.TcpConn | Deno.UnixConn} to
 */
async function copy(from, to) {
  const buffer = new Uint8Array(BUFFER_BYTES);
  for (let read = await from.read(buffer); read !== null; read = await from.read(buffer)) {
    for (let sent = 0; sent < read;) sent += await to.write(buffer.subarray(sent, read));
  }
  await to.closeWrite();
}

/**
 * Forwards as long as the process lives.
 *
 * @returns {Promise<never>}
 */
export function runForwarder() {
  for (const [at, word] of Deno.args.entries()) {
    if (!/^\d+$/.test(word)) continue;
    const listener = Deno.listen({ hostname: "127.0.0.1", port: Number(word) });
    void acceptAll(listener, String(Deno.args[at + 1]));
  }
  Deno.stdout.writeSync(new TextEncoder().encode("ready\n"));
  return new Promise(() => {});
}

if (import.meta.main) void runForwarder();
