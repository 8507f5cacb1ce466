/**
 * Another user of this machine tries every listener and every socket of both daemons, on every address, in every state:
 * only what docs/explanation/threat_model.md lists answers, and a source port is no identity.
 */

import { assertEquals, assertMatch } from "@std/assert";
import { systemClock } from "../../lib/clock.ts";
import { configure, EMBEDDED, makeBrokerPlace, startBroker } from "../cli/support/broker_place.ts";
import { startDaemon } from "../cli/support/daemon.ts";
import { makePlace } from "../cli/support/taskd.ts";
import { plainGit } from "../broker/git/bench.ts";
import { socketStagingOf } from "../../lib/socket_path.ts";
import { textLines } from "../support/text_lines.ts";
import { asOtherUser, type Attempt, elsewhere, type Listening, listeningOf } from "../support/other_user.ts";

const TOKEN = "only-tests-know-this-token";
const IGNORED = Deno.uid() === 0 ? "" : " (ignored: another user takes root)";

const ROUTES = [
  "/healthz",
  "/tasks",
  "/metrics",
  "/events",
  "/rpc",
  "/debug/pprof/",
  "/admin/ui",
  "/admin/pending",
  "/ui/",
  "/v1/models",
];

/** What the documentation lets any user of this machine have of a listener: routes by their status, others are 401 to 405. */
type Open = Record<string, number>;

interface Documented {
  ports: Record<number, Open>;
  /** The unix socket, its owner's alone. */
  socket: string;
}

/** Tries everything, and fails for what is not documented. */
async function tryAll(pid: number, { ports, socket }: Documented, state: string): Promise<void> {
  const listening = listeningOf(pid);
  assertEquals(listening.ports, Object.keys(ports).map(Number).sort((a, b) => a - b), state);
  // The kernel knows a socket by the path at which it was made.
  assertEquals(listening.sockets, [socketStagingOf(socket).socket], state);
  const attempts = listening.ports.flatMap((port): Attempt[] => [
    ...elsewhere().map((address) => ({ address, port, line: "GET /admin/ui" })),
    ...ROUTES.map((route) => ({ address: "127.0.0.1", port, line: `GET ${route}` })),
    // A number that every user can choose must be no identity.
    ...listening.peers.map((source_port) => ({ address: "127.0.0.1", port, line: "GET /admin/ui", source_port })),
  ]);
  const { answers, of_sockets } = await asOtherUser(attempts, [socket]);
  for (const [at, { address, port, line, source_port }] of attempts.entries()) {
    const what = `${state}: ${line} at ${address}:${port} from ${source_port ?? "any port"}`;
    const open = ports[port]![line.replace("GET ", "")];
    if (address !== "127.0.0.1") assertEquals(answers[at], "refused", what);
    else if (open === undefined) assertMatch(answers[at]!, /^HTTP\/1\.1 40[0-7] |^nothing$/, what);
    else assertMatch(answers[at]!, new RegExp(`^HTTP/1\\.1 ${open} `), what);
  }
  assertEquals(of_sockets, ["denied"], state);
}

/** Until the process has ended it listens on no more than before. */
async function watchEnd(pid: number, { ports, socket }: Documented): Promise<void> {
  const sockets = [socketStagingOf(socket).socket];
  for (;;) {
    let now: Listening;
    try {
      now = listeningOf(pid);
    } catch {
      return;
    }
    assertEquals(now.ports.filter((port) => !(port in ports)), [], "during the stop");
    assertEquals(now.sockets.filter((path) => !sockets.includes(path)), [], "during the stop");
    await systemClock.sleep(5);
  }
}

async function makeRepository(path: string): Promise<string> {
  await Deno.mkdir(path);
  await plainGit(path, "init", "--quiet", "--initial-branch=main");
  const as = ["-c", "user.name=a", "-c", "user.email=a@b.c"];
  await plainGit(path, ...as, "commit", "--quiet", "--allow-empty", "-m", "x");
  return path;
}

/** A server that knows its own connections by their source port, as one behind a guard once did. */
Deno.test({
  name: `the source port of another user's connection passes for a client's${IGNORED}`,
  ignore: IGNORED !== "",
  fn: async () => {
    using public_listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    using hidden = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    const { port } = hidden.addr;
    using client = await Deno.connect({ port: public_listener.addr.port, hostname: "127.0.0.1" });
    const known = (client.localAddr as Deno.NetAddr).port;
    const serving = (async () => {
      using conn = await hidden.accept();
      await conn.read(new Uint8Array(1024));
      const status = (conn.remoteAddr as Deno.NetAddr).port === known ? "200 OK" : "403 Forbidden";
      await conn.write(new TextEncoder().encode(`HTTP/1.1 ${status}\r\n\r\n`));
    })();
    const { answers } = await asOtherUser([{ address: "127.0.0.1", port, line: "GET /admin/ui", source_port: known }]);
    await serving;
    assertEquals(answers, ["HTTP/1.1 200 OK"]);
  },
});

Deno.test({
  name: `another user gets from a broker only what is documented, in every state${IGNORED}`,
  ignore: IGNORED !== "",
  fn: async () => {
    await using place = await makeBrokerPlace();
    // So that the modes of the broker's own folder decide.
    await Deno.chmod(place.base, 0o755);
    // A model that never answers, so that a task runs on.
    const model = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    const endpoint = EMBEDDED.replace("localhost:9", `localhost:${model.addr.port}`);
    await configure(place, `${endpoint}broker:\n  addr: 127.0.0.1:0\n`);
    const repo = await makeRepository(`${place.base}/app`);
    await using broker = await startBroker(place);
    const { pid, socket, ui_url, addr } = broker.hello as typeof broker.hello & { addr: string };
    const [addr_port, ui_port] = [Number(addr.split(":")[1]), Number(new URL(ui_url).port)];
    // The gateway's and the proxy's, which ask for the token of a task.
    const others = listeningOf(pid).ports.filter((port) => port !== addr_port && port !== ui_port);
    assertEquals(others.length, 2);
    const documented: Documented = {
      ports: {
        [others[0]!]: {},
        [others[1]!]: {},
        [addr_port]: { "/healthz": 200, "/tasks": 200, "/metrics": 200, "/admin/pending": 200 },
        [ui_port]: { "/ui/": 200 },
      },
      socket,
    };
    await tryAll(pid, documented, "idle");
    const following = place.start("submit", repo, "Wait");
    const lines = textLines(following.stdout);
    const { value: id } = await lines.next();
    const asked = await model.accept();
    const stop = new AbortController();
    const stream = await fetch(`http://${addr}/tasks/${id}/events`, { signal: stop.signal });
    assertEquals(stream.status, 200);
    await tryAll(pid, documented, "with a followed task and an open stream");
    // A model that never answers would hold the end up.
    asked.close();
    model.close();
    broker.child.kill("SIGTERM");
    await watchEnd(pid, documented);
    await broker.ended();
    stop.abort();
    await stream.body?.cancel().catch(() => {});
    await following.stderr.cancel();
    await lines.return();
    await following.status;
  },
});

Deno.test({
  name: `another user gets from a store's daemon only what is documented, in every state${IGNORED}`,
  ignore: IGNORED !== "",
  fn: async () => {
    await using place = await makePlace();
    await Deno.chmod(place.base, 0o755);
    await using daemon = await startDaemon(place, "-http", "127.0.0.1:0", "-token", TOKEN);
    const { http, socket } = daemon.hello;
    const port = Number(http.split(":")[1]);
    const documented: Documented = { ports: { [port]: { "/healthz": 200 } }, socket };
    await tryAll(daemon.pid, documented, "idle");
    const stop = new AbortController();
    const headers = { authorization: `Bearer ${TOKEN}` };
    const stream = await fetch(`http://${http}/events`, { headers, signal: stop.signal });
    assertEquals(stream.status, 200);
    await tryAll(daemon.pid, documented, "with an open stream");
    const stopped = daemon.stop();
    await watchEnd(daemon.pid, documented);
    assertEquals((await stopped).code, 0);
    stop.abort();
    await stream.body?.cancel().catch(() => {});
  },
});
