/**
 * Names that the proxy refused because no list has them, counted from its access log: what an operator may want to
 * allow. Tasks choose these names, so that a count says how often one was asked for, and nothing about whom it belongs to.
 */

import { exists } from "../../lib/fs.ts";
import { type EgressTarget, parseAuthority } from "./host_name.ts";

export interface RefusedName extends EgressTarget {
  requests: number;
  tasks: number;
  /** Milliseconds since 1970. */
  last_ms: number;
}

/** Different names that are counted; of a flood of them the rest is left out. */
const MAX_NAMES = 10_000;
const MAX_TASKS = 1_000;

/** time elapsed client result/status bytes method url user hierarchy/address type reason; see `access_log.ts`. */
const LINE =
  /^(\d{1,12})\.(\d{3}) +\d+ \S+ TCP_DENIED\/403 \d+ (\S+) (\S+) (\S+) \S+ - reason=(?:port_)?not_listed(?:;|$)/;

interface Tally extends EgressTarget {
  requests: number;
  tasks: Set<string>;
  last_ms: number;
}

export class RefusedNames {
  readonly #since_ms: number;
  readonly #names = new Map<string, Tally>();

  /** Counts lines from that time on. */
  constructor(since_ms: number) {
    this.#since_ms = since_ms;
  }

  /** Counts the lines of a log; throws what the system does, and nothing where there is none. */
  async read(path: string): Promise<void> {
    if (!exists(path)) return;
    let rest = "";
    for await (const text of Deno.openSync(path).readable.pipeThrough(new TextDecoderStream())) {
      const lines = (rest + text).split("\n");
      rest = lines.pop()!;
      for (const line of lines) this.add(line);
    }
  }

  /** A line of the log. */
  add(line: string): void {
    const match = LINE.exec(line);
    if (match === null) return;
    const [, seconds, millis, method, url, task] = match;
    const at_ms = Number(seconds) * 1_000 + Number(millis);
    const target = at_ms < this.#since_ms ? undefined : targetOf(method!, url!);
    if (target === undefined) return;
    const key = `${target.host}:${target.port}`;
    let tally = this.#names.get(key);
    if (tally === undefined) {
      if (this.#names.size >= MAX_NAMES) return;
      this.#names.set(key, tally = { ...target, requests: 0, tasks: new Set(), last_ms: 0 });
    }
    tally.requests++;
    tally.last_ms = Math.max(tally.last_ms, at_ms);
    if (tally.tasks.size < MAX_TASKS) tally.tasks.add(task!);
  }

  /** What most tasks asked for, then what was asked for most often, comes first. */
  list(): RefusedName[] {
    return [...this.#names.values()].map((tally) => ({ ...tally, tasks: tally.tasks.size }))
      .sort((a, b) => b.tasks - a.tasks || b.requests - a.requests || b.last_ms - a.last_ms);
  }
}

function targetOf(method: string, url: string): EgressTarget | undefined {
  const authority = method === "CONNECT" ? url : /^http:\/\/([^/]+)/.exec(url)?.[1] ?? "";
  const target = parseAuthority(authority, method === "CONNECT" ? undefined : 80);
  return typeof target === "string" ? undefined : target;
}
