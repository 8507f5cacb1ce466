/**
 * Profiles of the daemon's main thread in pprof's format (github.com/google/pprof, profile.proto), gzipped, as
 * `go tool pprof` and its relatives read them.
 *
 * @module
 */

import { Session } from "node:inspector";
import { gzipSync } from "node:zlib";
import { Function as PprofFunction, Line, Location, Profile, Sample, StringTable, ValueType } from "pprof-format";
import type { Clock } from "../../lib/clock.ts";

/** Between two samples of a CPU profile: 100 a second, as Go takes them. */
const SAMPLING_INTERVAL_US = 10_000;
/** Mean bytes between two samples of a heap profile: V8's default. */
const HEAP_SAMPLING_BYTES = 32 << 10;

interface CallFrame {
  functionName: string;
  url: string;
  lineNumber: number;
}
interface CpuNode {
  id: number;
  callFrame: CallFrame;
  children?: number[];
}
interface CpuProfile {
  nodes: CpuNode[];
  startTime: number;
  endTime: number;
  samples: number[];
  timeDeltas: number[];
}
interface HeapNode {
  callFrame: CallFrame;
  selfSize: number;
  id: number;
  children: HeapNode[];
}
interface HeapProfile {
  head: HeapNode;
  samples: { size: number; nodeId: number }[];
}

/** Takes one kind of profile at a time. */
export class Profiler {
  readonly #clock: Clock;
  #busy = false;

  /** Waits by `clock`. */
  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Whether one is being taken: the engine has one profiler. */
  get busy(): boolean {
    return this.#busy;
  }

  /** Samples the CPU for `seconds`; an abort ends it early and gives what there is. */
  cpu(seconds: number, signal: AbortSignal): Promise<Uint8Array> {
    return this.#exclusively(async (post) => {
      await post("Profiler.enable");
      await post("Profiler.setSamplingInterval", { interval: SAMPLING_INTERVAL_US });
      await post("Profiler.start");
      await this.#clock.sleep(seconds * 1000, signal).catch(() => {});
      const { profile } = await post("Profiler.stop") as { profile: CpuProfile };
      await post("Profiler.disable");
      return encodeCpu(profile, this.#clock.now());
    });
  }

  /** Samples allocations for `seconds`, and reports those that are still live. */
  heap(seconds: number, signal: AbortSignal): Promise<Uint8Array> {
    return this.#exclusively(async (post) => {
      await post("HeapProfiler.enable");
      await post("HeapProfiler.startSampling", { samplingInterval: HEAP_SAMPLING_BYTES });
      await this.#clock.sleep(seconds * 1000, signal).catch(() => {});
      const { profile } = await post("HeapProfiler.stopSampling") as { profile: HeapProfile };
      await post("HeapProfiler.disable");
      return encodeHeap(profile, this.#clock.now());
    });
  }

  async #exclusively(work: (post: Post) => Promise<Uint8Array>): Promise<Uint8Array> {
    this.#busy = true;
    const session = new Session();
    try {
      session.connect();
      const post: Post = (method, parameters) =>
        new Promise((resolve, reject) => {
          session.post(
            method,
            parameters ?? {},
            (error: Error | null, result?: unknown) => error ? reject(error) : resolve(result),
          );
        });
      return await work(post);
    } finally {
      session.disconnect();
      this.#busy = false;
    }
  }
}

type Post = (method: string, parameters?: object) => Promise<unknown>;

/** A CPU profile of V8 as pprof: samples and nanoseconds for each stack. */
export function encodeCpu(profile: CpuProfile, now_ms: number): Uint8Array {
  const builder = new Builder();
  const parents = new Map<number, number>();
  const nodes = new Map(profile.nodes.map((node) => [node.id, node]));
  for (const node of profile.nodes) for (const child of node.children ?? []) parents.set(child, node.id);
  const totals = new Map<number, { count: number; us: number }>();
  profile.samples.forEach((id, index) => {
    const total = totals.get(id) ?? { count: 0, us: 0 };
    total.count++;
    total.us += Math.max(0, profile.timeDeltas[index] ?? 0);
    totals.set(id, total);
  });
  for (const [id, { count, us }] of totals) {
    const stack: CallFrame[] = [];
    for (let at: number | undefined = id; at !== undefined; at = parents.get(at)) stack.push(nodes.get(at)!.callFrame);
    builder.sample(stack, [count, us * 1000]);
  }
  return builder.encode({
    types: [["samples", "count"], ["cpu", "nanoseconds"]],
    period: ["cpu", "nanoseconds", SAMPLING_INTERVAL_US * 1000],
    now_ms,
    duration_ns: (profile.endTime - profile.startTime) * 1000,
  });
}

/** A sampled heap of V8 as pprof: live objects and bytes for each stack. */
export function encodeHeap(profile: HeapProfile, now_ms: number): Uint8Array {
  const builder = new Builder();
  const counts = new Map<number, number>();
  for (const { nodeId } of profile.samples) counts.set(nodeId, (counts.get(nodeId) ?? 0) + 1);
  const walk = (node: HeapNode, stack: CallFrame[]) => {
    const here = [node.callFrame, ...stack];
    if (node.selfSize > 0) builder.sample(here, [counts.get(node.id) ?? 1, node.selfSize]);
    for (const child of node.children) walk(child, here);
  };
  walk(profile.head, []);
  return builder.encode({
    types: [["inuse_objects", "count"], ["inuse_space", "bytes"]],
    period: ["space", "bytes", HEAP_SAMPLING_BYTES],
    now_ms,
    duration_ns: 0,
  });
}

/** Collects samples, each function and place once. */
class Builder {
  readonly #strings = new StringTable();
  readonly #functions: PprofFunction[] = [];
  readonly #locations = new Map<string, Location>();
  readonly #samples: Sample[] = [];

  sample(stack: CallFrame[], values: number[]): void {
    // The innermost frame first; V8's artificial root is no frame.
    const frames = stack.filter(({ functionName }) => functionName !== "(root)");
    this.#samples.push(
      new Sample({ locationId: frames.map((frame) => this.#location(frame).id), value: values }),
    );
  }

  encode(about: {
    types: [string, string][];
    period: [string, string, number];
    now_ms: number;
    duration_ns: number;
  }): Uint8Array {
    const type = ([name, unit]: [string, string]) =>
      new ValueType({ type: this.#strings.dedup(name), unit: this.#strings.dedup(unit) });
    const [period_name, period_unit, period] = about.period;
    const profile = new Profile({
      sampleType: about.types.map(type),
      sample: this.#samples,
      location: [...this.#locations.values()],
      function: this.#functions,
      stringTable: this.#strings,
      timeNanos: BigInt(about.now_ms) * 1_000_000n,
      durationNanos: BigInt(Math.max(0, Math.round(about.duration_ns))),
      periodType: type([period_name, period_unit]),
      period,
    });
    return gzipSync(profile.encode());
  }

  #location({ functionName, url, lineNumber }: CallFrame): Location {
    const name = functionName === "" ? "(anonymous)" : functionName;
    const line = Math.max(0, lineNumber + 1);
    const key = `${name}\n${url}\n${line}`;
    const known = this.#locations.get(key);
    if (known) return known;
    const id = this.#locations.size + 1;
    this.#functions.push(
      new PprofFunction({
        id,
        name: this.#strings.dedup(name),
        systemName: this.#strings.dedup(name),
        filename: this.#strings.dedup(url),
        startLine: line,
      }),
    );
    const location = new Location({ id, line: [new Line({ functionId: id, line })] });
    this.#locations.set(key, location);
    return location;
  }
}
