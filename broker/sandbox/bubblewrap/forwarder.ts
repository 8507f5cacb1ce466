/**
 * The forwarder inside of a sandbox: what connects to a port of its loopback reaches the socket of the gateway or of the
 * proxy. Nothing else leads out of the sandbox's network.
 *
 * It is started with pairs of a port and a socket's path, says `ready` once it listens on all of them, and ends with the
 * sandbox. It imports nothing: a sandbox gets its text, and deno, and no cache.
 */

/** Bytes that are on their way in one direction of a connection. */
const BUFFER_BYTES = 64 << 10;

/** Listens, and forwards until the process is ended. */
export async function forward(pairs: readonly string[]): Promise<never> {
  const accepting: Promise<void>[] = [];
  for (let at = 0; at + 1 < pairs.length; at += 2) {
    const listener = Deno.listen({ hostname: "127.0.0.1", port: Number(pairs[at]) });
    accepting.push(acceptAll(listener, pairs[at + 1]!));
  }
  Deno.stdout.writeSync(new TextEncoder().encode("ready\n"));
  await Promise.all(accepting);
  throw new Error("a listener has ended");
}

async function acceptAll(listener: Deno.TcpListener, path: string): Promise<void> {
  for (;;) {
    try {
      void connect(await listener.accept(), path);
    } catch {
      // Out of descriptors, most likely: connections that end give them back.
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
}

async function connect(client: Deno.TcpConn, path: string): Promise<void> {
  let server: Deno.UnixConn;
  try {
    client.setNoDelay(true);
    server = await Deno.connect({ transport: "unix", path });
  } catch {
    return client.close();
  }
  try {
    // What fails in one direction ends both.
    await Promise.all([copy(client, server), copy(server, client)]);
  } catch {
    // One of them has reset the connection; the other sees its end.
  } finally {
    client.close();
    server.close();
  }
}

/** Copies until the end, which it passes on: a client may have sent all and still wait for the answer. */
async function copy(from: Deno.Conn, to: Deno.Conn): Promise<void> {
  const buffer = new Uint8Array(BUFFER_BYTES);
  for (let read = await from.read(buffer); read !== null; read = await from.read(buffer)) {
    for (let sent = 0; sent < read;) sent += await to.write(buffer.subarray(sent, read));
  }
  await to.closeWrite();
}

if (import.meta.main) await forward(Deno.args);
