/**
 * Profiles of all the daemon's threads in pprof's format (github.com/google/pprof, profile.proto), gzipped, as
 * `go tool pprof` and its relatives read them. Each sample has its thread as the label `thread`.
 */

import type { Runtime } from "node:inspector";
import { gzipSync } from "node:zlib";
import {
  Function as PprofFunction,
  Label,
  Line,
  Location,
  Profile,
  Sample,
  StringTable,
  ValueType,
} from "pprof-format";
import type { Clock } from "../../lib/clock.ts";
import {
  HEAP_SAMPLING_BYTES,
  type HeapNode,
  type SampledThreads,
  sampleThread,
  SAMPLING_INTERVAL_US,
  type SamplingKind,
  type ThreadProfile,
} from "../sampling.ts";

/** Takes one profile at a time. */
export class Profiler {
  readonly #clock: Clock;
  readonly #threads: SampledThreads;
  #busy = false;

  constructor(clock: Clock, threads: SampledThreads) {
    this.#clock = clock;
    this.#threads = threads;
  }

  /** Whether one is being taken: an engine has one profiler. */
  get busy(): boolean {
    return this.#busy;
  }

  /** Samples the CPU for `seconds`; an abort ends it early and gives what there is. */
  async cpu(seconds: number, signal: AbortSignal): Promise<Uint8Array> {
    return encodeCpu(await this.#sample("cpu", seconds, signal), this.#clock.now());
  }

  /** Samples allocations for `seconds`, and reports those that are still live. */
  async heap(seconds: number, signal: AbortSignal): Promise<Uint8Array> {
    return encodeHeap(await this.#sample("heap", seconds, signal), this.#clock.now());
  }

  async #sample<K extends SamplingKind>(kind: K, seconds: number, signal: AbortSignal): Promise<ThreadProfile<K>[]> {
    this.#busy = true;
    try {
      const [own, others] = await Promise.all([sampleThread(kind), this.#threads.sample(kind)]);
      await this.#clock.sleep(seconds * 1000, signal).catch(() => {});
      const [profile, found] = await Promise.all([own(), others()]);
      return [{ thread: "main", profile }, ...found];
    } finally {
      this.#busy = false;
    }
  }
}

/** CPU profiles of V8 as pprof: samples and nanoseconds for each stack. */
function encodeCpu(profiles: readonly ThreadProfile<"cpu">[], now_ms: number): Uint8Array {
  const builder = new Builder();
  for (const { thread, profile } of profiles) {
    const parents = new Map<number, number>();
    const nodes = new Map(profile.nodes.map((node) => [node.id, node]));
    for (const node of profile.nodes) for (const child of node.children ?? []) parents.set(child, node.id);
    const totals = new Map<number, { count: number; us: number }>();
    profile.samples?.forEach((id, index) => {
      const total = totals.getOrInsert(id, { count: 0, us: 0 });
      total.count++;
      total.us += Math.max(0, profile.timeDeltas?.[index] ?? 0);
    });
    for (const [id, { count, us }] of totals) {
      const stack: Runtime.CallFrame[] = [];
      for (let at: number | undefined = id; at !== undefined; at = parents.get(at)) {
        stack.push(nodes.get(at)!.callFrame);
      }
      builder.sample(stack, [count, us * 1000], thread);
    }
  }
  return builder.encode({
    types: [["samples", "count"], ["cpu", "nanoseconds"]],
    period: ["cpu", "nanoseconds", SAMPLING_INTERVAL_US * 1000],
    now_ms,
    duration_ns: Math.max(0, ...profiles.map(({ profile }) => (profile.endTime - profile.startTime) * 1000)),
  });
}

/** Sampled heaps of V8 as pprof: live objects and bytes for each stack. */
function encodeHeap(profiles: readonly ThreadProfile<"heap">[], now_ms: number): Uint8Array {
  const builder = new Builder();
  for (const { thread, profile } of profiles) {
    const counts = new Map<number, number>();
    for (const { nodeId } of profile.samples) counts.set(nodeId, (counts.get(nodeId) ?? 0) + 1);
    const walk = (node: HeapNode, stack: Runtime.CallFrame[]) => {
      const here = [node.callFrame, ...stack];
      if (node.selfSize > 0) builder.sample(here, [counts.get(node.id) ?? 1, node.selfSize], thread);
      for (const child of node.children) walk(child, here);
    };
    walk(profile.head, []);
  }
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

  sample(stack: Runtime.CallFrame[], values: number[], thread: string): void {
    // The innermost frame first; V8's artificial root is no frame.
    const frames = stack.filter(({ functionName }) => functionName !== "(root)");
    const label = [new Label({ key: this.#strings.dedup("thread"), str: this.#strings.dedup(thread) })];
    this.#samples.push(
      new Sample({ locationId: frames.map((frame) => this.#location(frame).id), value: values, label }),
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

  #location({ functionName, url, lineNumber }: Runtime.CallFrame): Location {
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
