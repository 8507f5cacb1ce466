/**
 * A real git server: `git http-backend` behind HTTP on loopback, with faults that a test stages per request.
 */

import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { AddressInfo } from "node:net";

/**
 * What happens to a request. `lose_answer` lets it through and cuts the connection before the answer; `half` gives the
 * first half of a long answer and no more.
 */
export type Fault = "pass" | "reset" | "lose_answer" | "half" | { status: number; location?: string };

/** Bytes; beyond it `half` counts. */
const LONG = 100_000;

/** One request, for the test to decide on. */
export interface GitRequest {
  method: string;
  /** Path and query. */
  url: string;
  authorization: string | undefined;
  /** Of its body, once it was read. */
  bytes: number;
}

/** A server. */
export interface GitServer extends AsyncDisposable {
  /** `http://127.0.0.1:port`; with a certificate, `https://localhost:port`. */
  origin: string;
  requests: GitRequest[];
}

/** Serves the bare repositories below `root`. */
export async function serveGit(
  root: string,
  decide: (request: GitRequest) => Fault = () => "pass",
  tls?: { cert: string; key: string },
): Promise<GitServer> {
  const requests: GitRequest[] = [];
  const serve = (request: IncomingMessage, response: ServerResponse) => {
    const seen = { method: request.method!, url: request.url!, authorization: request.headers.authorization, bytes: 0 };
    requests.push(seen);
    void answer(root, request, response, seen, decide(seen)).catch(() => request.socket.destroy());
  };
  const server = tls === undefined ? createServer(serve) : createTlsServer(tls, serve);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    origin: `${tls === undefined ? "http://127.0.0.1" : "https://localhost"}:${(server.address() as AddressInfo).port}`,
    requests,
    [Symbol.asyncDispose]: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

async function answer(
  root: string,
  request: IncomingMessage,
  response: ServerResponse,
  seen: GitRequest,
  fault: Fault,
): Promise<void> {
  if (fault === "reset") return void request.socket.destroy();
  const chunks: Uint8Array[] = [];
  for await (const chunk of request) {
    chunks.push(chunk);
    seen.bytes += chunk.length;
  }
  if (typeof fault === "object") {
    const headers: Record<string, string> = fault.location === undefined ? {} : { location: fault.location };
    if (fault.status === 401) headers["www-authenticate"] = 'Basic realm="git"';
    response.writeHead(fault.status, headers).end();
    return;
  }
  const { head, body } = await backend(root, request, new Blob(chunks as BlobPart[]));
  if (fault === "lose_answer") return void request.socket.destroy();
  response.writeHead(head.status, head.headers);
  if (fault === "half" && body.length > LONG) response.write(body.subarray(0, body.length >> 1));
  else response.end(body);
}

async function backend(root: string, request: IncomingMessage, body: Blob) {
  const url = new URL(request.url!, "http://git");
  const header = (name: string) => request.headers[name] as string | undefined ?? "";
  const child = new Deno.Command("/usr/bin/git", {
    args: ["-c", "http.receivepack=true", "http-backend"],
    clearEnv: true,
    env: {
      PATH: "/usr/bin:/bin",
      GIT_CONFIG_NOSYSTEM: "1",
      GIT_CONFIG_GLOBAL: "/dev/null",
      GIT_PROJECT_ROOT: root,
      GIT_HTTP_EXPORT_ALL: "1",
      PATH_INFO: decodeURIComponent(url.pathname),
      QUERY_STRING: url.search.slice(1),
      REQUEST_METHOD: request.method!,
      CONTENT_TYPE: header("content-type"),
      CONTENT_LENGTH: String(body.size),
      HTTP_CONTENT_ENCODING: header("content-encoding"),
      GIT_PROTOCOL: header("git-protocol"),
      REMOTE_USER: "test",
      REMOTE_ADDR: "127.0.0.1",
    },
    stdin: "piped",
    stdout: "piped",
    stderr: "null",
  }).spawn();
  const [output] = await Promise.all([child.output(), body.stream().pipeTo(child.stdin)]);
  const text = new TextDecoder("latin1").decode(output.stdout);
  const end = text.indexOf("\r\n\r\n");
  const headers: Record<string, string> = {};
  for (const line of text.slice(0, end).split("\r\n")) {
    const colon = line.indexOf(":");
    headers[line.slice(0, colon).toLowerCase()] = line.slice(colon + 1).trim();
  }
  const status = Number.parseInt(headers.status ?? "200");
  delete headers.status;
  return { head: { status, headers }, body: output.stdout.subarray(end + 4) };
}
