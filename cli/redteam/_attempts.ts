/** What attacks on sandboxes share: scripts that run in them, and listeners that show what was reached. */

import type { HttpListener } from "../../lib/http/server.ts";
import type { RedteamContext } from "./context.ts";
import { ATTEMPTS_PRELUDE, FORK_BOMB, networkAttacks, SIBLING_SCRIPT } from "./inputs/container_scripts.ts";
import type { ContainerRun, Sandboxes, StartedRun } from "./sandbox_network.ts";
import type { Trial } from "./security_promise.ts";

/** As many processes as a fork bomb may make. */
export const BOMB_PIDS = 40;

export async function attempts(
  context: RedteamContext,
  network: Sandboxes,
  { script, ...run }: { script: string } & Partial<ContainerRun>,
): Promise<Map<string, string>> {
  const work_dir = await context.folder();
  await Deno.writeTextFile(`${work_dir}/attempts.py`, `${ATTEMPTS_PRELUDE}${script}`);
  const started = await network.start({
    work_dir,
    command: [network.python ?? "python3", "/workspace/attempts.py"],
    ...run,
  });
  const { code, out, err } = await started.wait();
  return rowsOf({ code, out, err });
}

/** What a script of attempts printed. */
export function rowsOf({ code, out, err }: { code: number; out: readonly string[]; err: readonly string[] }) {
  if (code !== 0) throw new Error(`the attempts ended with ${code}: ${err.slice(-5).join(" ")}`);
  const rows = out.filter((line) => line.startsWith('{"name"')).map((line) => JSON.parse(line));
  return new Map<string, string>(rows.map(({ name, got }) => [name, got]));
}

export function refused(trial: Trial, got: ReadonlyMap<string, string>, prefix = "no: "): void {
  for (const [name, what] of got) {
    if (name.startsWith(prefix)) trial.attempt(name.slice(prefix.length), what.startsWith("refused "), what);
  }
}

/** Holds what was tried to get rights over the network: `least` attempts, none of which may have got any. */
export function holdRights(trial: Trial, got: ReadonlyMap<string, string>, least: number): void {
  for (const [name, what] of got) {
    if (name.startsWith("Cap")) trial.attempt(name, Number.parseInt(what, 16) === 0, what);
    else if (name.startsWith("NoNewPrivs")) trial.expect(name, what, "1");
    else trial.attempt(name, what.startsWith("refused "), what);
  }
  trial.control("the program", got.size >= least, `${got.size} attempts`);
}

/** Counts its connections, and greets each with a word. */
export class Greeter implements AsyncDisposable {
  readonly #listener: HttpListener;
  readonly #greeting: Promise<void>;
  accepted = 0;

  constructor(listener: HttpListener, word: string) {
    this.#listener = listener;
    this.#greeting = this.#greet(new TextEncoder().encode(word));
  }

  static at(hostname: string, port: number, word: string): Greeter {
    return new Greeter(Deno.listen({ hostname, port }), word);
  }

  get port(): number {
    return (this.#listener.addr as Deno.NetAddr).port;
  }

  /** Afterwards its port is free: the system has it until the last wait for a connection has ended. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#listener.close();
    await this.#greeting;
  }

  async #greet(word: Uint8Array): Promise<void> {
    for (;;) {
      let conn: Deno.Conn;
      try {
        conn = await this.#listener.accept();
      } catch {
        return;
      }
      this.accepted++;
      await conn.write(word).catch(() => {});
      conn.close();
    }
  }
}

/** Starts a script that stays; `said` is its first line that begins with `word`, and rejects when there is none. */
export async function startScript<Run extends StartedRun>(
  context: RedteamContext,
  network: Sandboxes<Run>,
  { script, word, ...run }: { script: string; word: string } & Partial<ContainerRun>,
): Promise<{ run: Run; said: Promise<string> }> {
  const line = Promise.withResolvers<string>();
  const started = await network.start({
    work_dir: await context.folder(),
    command: [network.python ?? "python3", "-c", script],
    onLine: (text) => text.startsWith(word) && line.resolve(text),
    ...run,
  });
  started.wait().then(({ err }) => line.reject(new Error(`it ended: ${err.join(" ")}`)), line.reject);
  return { run: started, said: line.promise };
}

/** Tries to reach more than the gateway and the proxy: what else listens beside them and on the host, a neighbour. */
export async function tryNetwork<Run extends StartedRun>(
  trial: Trial,
  context: RedteamContext,
  sandboxes: Sandboxes<Run>,
  [other, own]: readonly [other: Greeter, own: Greeter],
  addressOf: (sibling: Run) => string | Promise<string>,
): Promise<void> {
  const { gateway_ip: gateway } = sandboxes;
  const before = other.accepted + own.accepted;
  const { run: sibling, said } = await startScript(context, sandboxes, { script: SIBLING_SCRIPT, word: "ready" });
  let got: Map<string, string>;
  try {
    await said;
    const ports = { other_port: other.port, host_port: own.port };
    const places = { gateway, host: lanAddress(gateway), ...ports, sibling: await addressOf(sibling) };
    got = await attempts(context, sandboxes, { script: networkAttacks(places) });
  } finally {
    await sibling.stop();
  }
  const { out } = await sibling.wait();
  refused(trial, got);
  trial.attempt("connections at other ports", other.accepted + own.accepted === before, "there were some");
  trial.attempt("connections at the neighbour", !out.includes("reached"), "there were some");
  trial.control("the gateway", got.get("gateway") === "the gateway", got.get("gateway"));
  trial.control("the proxy", got.get("proxy") === "the proxy", got.get("proxy"));
}

export async function tryForkBomb(trial: Trial, context: RedteamContext, sandboxes: Sandboxes): Promise<void> {
  const bomb = await startScript(context, sandboxes, { script: FORK_BOMB, word: "made ", max_pids: BOMB_PIDS });
  try {
    const count = Number((await bomb.said).split(" ")[1]);
    trial.attempt("processes", count < BOMB_PIDS, `it made ${count}`);
    trial.control("some processes", count > 0, String(count));
  } finally {
    trial.expect("its end", (await bomb.run.stop()).reason, "stopped");
  }
}

/** An address of this host that other machines know; loopback where there is none. */
export function lanAddress(gateway: string): string {
  const network = gateway.replace(/\d+$/, "");
  return Deno.networkInterfaces().find(({ family, address }) =>
    family === "IPv4" && !address.startsWith("127.") && !address.startsWith(network)
  )?.address ?? "127.0.0.1";
}
