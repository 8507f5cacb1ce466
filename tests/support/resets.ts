/**
 * Clients that are gone before they are accepted.
 */

const RESETS = `
import socket, struct, sys
for _ in range(50):
    client = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()
`;

/**
 * Makes connections to a port of loopback and resets them. The calling thread stands still meanwhile: a listener of its
 * own finds none of them there any more.
 */
export function resetConnections(port: number): void {
  const { success, stderr } = new Deno.Command("python3", { args: ["-c", RESETS, String(port)] }).outputSync();
  if (!success) throw new Error(new TextDecoder().decode(stderr));
}
