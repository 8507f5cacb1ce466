/** The promise that a client is known by its connection alone: a port is a number that any user of the machine can choose. */

import { connect } from "node:net";
import { once } from "node:events";
import { RawClient, Server, text } from "./raw_connections.ts";
import type { CommonPromise } from "./context.ts";
import { codeOf } from "../support/page_session.ts";

const ASK = "GET /admin/ui HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
/** Source ports that are tried: a machine has many connections. */
const MAX_SOURCES = 32;

export const SOURCE_PORT_PROMISES: readonly CommonPromise[] = [{
  id: "control.source_ports",
  promise:
    "No listener knows a client by its port: the operator's, taken on another address of loopback, opens nothing",
  attacks:
    "The ports of every connection since the broker's start, bound on 127.0.0.2, to every port that listens since",
  async run(trial, context) {
    if (Deno.build.os !== "linux") trial.skip("only Linux has 127.0.0.2 without a setting");
    const before = await loopbackPorts();
    const broker = await context.stageBroker();
    try {
      const code = codeOf(await broker.client.uiUrl());
      // The operator's, with a request half sent, and one to each public listener.
      using socket = await Deno.connect({ transport: "unix", path: broker.broker.socket });
      await socket.write(new TextEncoder().encode("GET /admin/pending HTTP/1.1\r\n"));
      await using open = await RawClient.connect(broker.ports.addr);
      await using page = await RawClient.connect(broker.ports.ui);
      const own = [open, page].map(({ conn }) => (conn.localAddr as Deno.NetAddr).port);
      const { listening, connected } = await loopbackPorts();
      const since = connected.filter((port) => !before.connected.includes(port)).slice(0, MAX_SOURCES);
      for (const port of listening.filter((port) => !before.listening.includes(port))) {
        for (const source of new Set([...own, ...since])) {
          const answer = await askFrom(source, port, context.timeout.timeout_ms);
          trial.attempt(`port ${port} from port ${source}`, !/#code=[0-9a-f]{64}/.test(answer), "it has a code");
        }
      }
      await using trusting = trustingServer(own[0]!, code);
      const fooled = await askFrom(own[0]!, trusting.port, context.timeout.timeout_ms);
      trial.control("a listener that goes by the source port, fooled", fooled.includes(code));
    } finally {
      await broker.stop();
    }
  },
}];

/** A server that takes a client from `known` for the owner of that connection. */
function trustingServer(known: number, code: string): Server {
  return Server.start(async (conn) => {
    await conn.read(new Uint8Array(1024));
    const trusted = (conn.remoteAddr as Deno.NetAddr).port === known;
    await conn.write(new TextEncoder().encode(trusted ? `HTTP/1.1 200 OK\r\n\r\n${code}` : "HTTP/1.1 403 No\r\n\r\n"));
  });
}

/** Ports of 127.0.0.1 that listen, and those of connections there, as every user of the machine can read them. */
async function loopbackPorts(): Promise<{ listening: number[]; connected: number[] }> {
  // The runtime reads nothing below /proc/net itself.
  const { stdout } = await new Deno.Command("/bin/cat", { args: ["/proc/net/tcp"], stderr: "null" }).output();
  const rows = new TextDecoder().decode(stdout).split("\n").map((line) => line.trim().split(/\s+/))
    .filter(([, local]) => local?.startsWith("0100007F:"));
  const portsIn = (state: string) =>
    rows.filter((row) => row[3] === state).map(([, local]) => parseInt(local!.slice(9), 16));
  return { listening: portsIn("0A"), connected: portsIn("01") };
}

/** What a port of 127.0.0.1 answers to a connection from this source port of 127.0.0.2; empty when it is refused. */
async function askFrom(source: number, port: number, timeout_ms: number): Promise<string> {
  const socket = connect({ host: "127.0.0.1", port, localAddress: "127.0.0.2", localPort: source });
  let answer = "";
  socket.on("data", (part: Uint8Array) => void (answer += text(part)));
  socket.on("error", () => {});
  socket.setTimeout(timeout_ms, () => socket.destroy());
  socket.write(ASK);
  await once(socket, "close");
  return answer;
}
