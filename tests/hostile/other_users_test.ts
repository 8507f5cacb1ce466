/**
 * Another user of this machine tries every listener and every socket of both daemons, on every address, in every state:
 * only what docs/explanation/threat_model.md lists answers, and a source port is no identity.
 */

import { assertEquals, assertMatch } from "@std/assert";
import { systemClock } from "../../lib/clock.ts";
import { configure, EMBEDDED, makeBrokerPlace, startBroker } from "../cli/support/broker_place.ts";
import { startDaemon } from "../cli/support/daemon.ts";
import { makePlace, type Place } from "../cli/support/taskd.ts";
import { plainGit } from "../broker/git/bench.ts";
import { socketStagingOf } from "../../lib/socket_path.ts";
import { textLines } from "../support/text_lines.ts";
import { asOtherUser, type Attempt, elsewhere, type Listening, listeningOf, ROUTES } from "../support/other_user.ts";
import { whyNoStrace } from "../support/strace.ts";

const TOKEN = "only-tests-know-this-token";
const UNTRACED = Deno.uid() === 0 ? await whyNoStrace() : " (ignored: another user takes root)";
const IGNORED = Deno.uid() === 0 ? "" : " (ignored: another user takes root)";

/** What the documentation lets any user of this machine have of a listener: routes by their status, others are 401 to 405. */
type Open = Record<string, number>;

interface Documented {
  ports: Record<number, Open>;
  /** The unix socket, its owner's alone. */
  socket: string;
}

/** A moment in the life of a daemon, in which another user tries everything that is there. */
interface Moment {
  state: string;
  listening: Listening;
  attempts: Attempt[];
  answers: string[];
  of_sockets: string[];
}

/** @param sockets Paths of sockets that are tried beside those that there are. */
async function tryAll(pid: number, state: string, sockets: readonly string[] = []): Promise<Moment> {
  const listening = listeningOf(pid);
  const attempts = listening.ports.flatMap((port): Attempt[] => [
    ...elsewhere().map((address) => ({ address, port, line: "GET /admin/ui" })),
    ...ROUTES.map((route) => ({ address: "127.0.0.1", port, line: `GET ${route}` })),
    // A number that every user can choose must be no identity.
    ...listening.peers.map((source_port) => ({ address: "127.0.0.1", port, line: "GET /admin/ui", source_port })),
  ]);
  const { answers, of_sockets } = await asOtherUser(attempts, [...sockets, ...listening.sockets]);
  return { state, listening, attempts, answers, of_sockets };
}

/** Fails for what is not documented; a daemon that starts or ends may have less of it, and answer 503. */
function checkMoment({ state, listening, attempts, answers, of_sockets }: Moment, { ports, socket }: Documented): void {
  const lasting = !state.startsWith("during");
  const known = Object.keys(ports).map(Number).sort((a, b) => a - b);
  // The kernel knows a socket by the path at which it was made.
  const sockets = [socketStagingOf(socket).socket];
  assertEquals(listening.ports.filter((port) => lasting || !known.includes(port)), lasting ? known : [], state);
  assertEquals(listening.sockets.filter((path) => lasting || !sockets.includes(path)), lasting ? sockets : [], state);
  for (const [at, { address, port, line, source_port }] of attempts.entries()) {
    const what = `${state}: ${line} at ${address}:${port} from ${source_port ?? "any port"}`;
    const open = ports[port]![line.replace("GET ", "")];
    if (address !== "127.0.0.1") {
      assertEquals(answers[at], "refused", what);
    } else if (lasting && open !== undefined) {
      assertMatch(answers[at]!, new RegExp(`^HTTP/1\\.1 ${open} `), what);
    } else {
      const less = lasting ? "" : `|^HTTP/1\\.1 (?:503|${open ?? 503}) |^refused$|^Connection reset by peer$`;
      assertMatch(answers[at]!, new RegExp(`^HTTP/1\\.1 40[0-7] |^nothing$${less}`), what);
    }
  }
  for (const what of of_sockets) assertMatch(what, /^denied$|^No such file or directory$/, state);
  if (lasting) assertEquals(of_sockets[0], "denied", state);
}

/** Tries everything, again and again, until the process has ended. */
async function tryUntilEnd(pid: number, { socket }: Documented): Promise<Moment[]> {
  const moments: Moment[] = [];
  try {
    for (;;) moments.push(await tryAll(pid, `during the stop, try ${moments.length}`, [socket]));
  } catch (error) {
    if (!hasEnded(pid)) throw error;
    return moments;
  }
}

function hasEnded(pid: number): boolean {
  try {
    listeningOf(pid);
    return false;
  } catch {
    return true;
  }
}

/** A daemon's start, under the eyes of another user from its first moment on. */
class WatchedStart<P extends Place> {
  readonly place: P;
  #moments: Promise<Moment[]> | undefined;
  #listens: Promise<FollowedListens> | undefined;
  #ready = false;

  constructor(place: P) {
    this.place = { ...place, start: (...words) => this.#start(place.start(...words)) };
  }

  #start(child: Deno.ChildProcess): Deno.ChildProcess {
    // Before it has done anything; what follows its calls is there from then on.
    child.kill("SIGSTOP");
    this.#listens = FollowedListens.of(child.pid);
    this.#moments = this.#listens.then(async () => {
      child.kill("SIGCONT");
      const moments: Moment[] = [];
      while (!this.#ready) {
        // As soon as there is something to try.
        if (listeningOf(child.pid).ports.length === 0) await systemClock.sleep(1);
        else moments.push(await tryAll(child.pid, `during the start, try ${moments.length}`));
      }
      return moments;
    });
    return child;
  }

  /** It serves: what was tried until now. */
  async moments(): Promise<Moment[]> {
    this.#ready = true;
    return await this.#moments!;
  }

  /** Every call by which it began to listen, once it has ended. */
  async listens(): Promise<string[]> {
    return await (await this.#listens!).ended();
  }
}

/** The calls by which a process, its threads and what it starts begin to listen, none of them missed. */
class FollowedListens {
  readonly #child: Deno.ChildProcess;
  readonly #lines: AsyncGenerator<string, void, void>;

  private constructor(child: Deno.ChildProcess) {
    this.#child = child;
    this.#lines = textLines(child.stderr);
  }

  static async of(pid: number): Promise<FollowedListens> {
    const child = new Deno.Command("strace", {
      args: ["-f", "-e", "trace=bind,listen", "-e", "signal=none", "-p", String(pid)],
      stdin: "null",
      stdout: "null",
      stderr: "piped",
    }).spawn();
    const followed = new FollowedListens(child);
    const { value } = await followed.#lines.next();
    assertMatch(value ?? "", / attached/);
    return followed;
  }

  /** What was bound: an address, or the path of a socket. */
  async ended(): Promise<string[]> {
    const bound: string[] = [];
    for await (const line of this.#lines) {
      const tcp = / bind\(.*inet_(?:addr|pton)\((?:AF_INET6, )?"([^"]+)"/.exec(line)?.[1];
      const unix = / bind\(.*sun_path=(@?"[^"]*")/.exec(line)?.[1];
      if (tcp !== undefined || unix !== undefined) bound.push(tcp ?? unix!.replaceAll('"', ""));
    }
    await this.#child.status;
    return bound.sort();
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
  name: `another user gets from a broker only what is documented, from its first moment to its last${UNTRACED}`,
  ignore: UNTRACED !== "",
  fn: async () => {
    await using place = await makeBrokerPlace();
    // So that the modes of the broker's own folder decide.
    await Deno.chmod(place.base, 0o755);
    // A model that never answers, so that a task runs on.
    const model = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    const endpoint = EMBEDDED.replace("localhost:9", `localhost:${model.addr.port}`);
    await configure(place, `${endpoint}broker:\n  addr: 127.0.0.1:0\n`);
    const repo = await makeRepository(`${place.base}/app`);
    const start = new WatchedStart(place);
    await using broker = await startBroker(start.place);
    const starting = await start.moments();
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
    for (const moment of starting) checkMoment(moment, documented);
    checkMoment(await tryAll(pid, "idle", [socket]), documented);
    const following = place.start("submit", repo, "Wait");
    const lines = textLines(following.stdout);
    const { value: id } = await lines.next();
    const asked = await model.accept();
    const stop = new AbortController();
    const stream = await fetch(`http://${addr}/tasks/${id}/events`, { signal: stop.signal });
    assertEquals(stream.status, 200);
    checkMoment(await tryAll(pid, "with a followed task and an open stream", [socket]), documented);
    // The model still owes its answer.
    broker.child.kill("SIGTERM");
    for (const moment of await tryUntilEnd(pid, documented)) checkMoment(moment, documented);
    await broker.ended();
    asked.close();
    model.close();
    // One is `broker.addr`, tried and closed before anything else is done.
    assertEquals(await start.listens(), [socketStagingOf(socket).socket, ...Array(5).fill("127.0.0.1")].sort());
    stop.abort();
    await stream.body?.cancel().catch(() => {});
    await following.stderr.cancel();
    await lines.return();
    await following.status;
  },
});

Deno.test({
  name: `another user gets from a store's daemon only what is documented, in every state${UNTRACED}`,
  ignore: UNTRACED !== "",
  fn: async () => {
    await using place = await makePlace();
    await Deno.chmod(place.base, 0o755);
    const start = new WatchedStart(place);
    await using daemon = await startDaemon(start.place, "-http", "127.0.0.1:0", "-token", TOKEN);
    const starting = await start.moments();
    const { http, socket } = daemon.hello;
    const port = Number(http.split(":")[1]);
    const documented: Documented = { ports: { [port]: { "/healthz": 200 } }, socket };
    for (const moment of starting) checkMoment(moment, documented);
    checkMoment(await tryAll(daemon.pid, "idle", [socket]), documented);
    const stop = new AbortController();
    const headers = { authorization: `Bearer ${TOKEN}` };
    const stream = await fetch(`http://${http}/events`, { headers, signal: stop.signal });
    assertEquals(stream.status, 200);
    checkMoment(await tryAll(daemon.pid, "with an open stream", [socket]), documented);
    const stopped = daemon.stop();
    for (const moment of await tryUntilEnd(daemon.pid, documented)) checkMoment(moment, documented);
    assertEquals((await stopped).code, 0);
    assertEquals(await start.listens(), [socketStagingOf(socket).socket, "127.0.0.1"].sort());
    stop.abort();
    await stream.body?.cancel().catch(() => {});
  },
});
