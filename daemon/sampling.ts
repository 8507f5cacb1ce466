/**
 * Samples of one thread, as V8 takes them. Each thread of the daemon has an engine and
 * so a profiler of its own; a profile of the daemon combines them.
 */

import { type Profiler, type Runtime, Session } from "node:inspector";

/** Between two samples of a CPU profile: 100 a second, as Go takes them. */
export const SAMPLING_INTERVAL_US = 10_000;
/** Mean bytes between two samples of a heap profile: V8's default. */
export const HEAP_SAMPLING_BYTES = 32 << 10;

/** What is sampled: where time goes, or what is allocated and still live. */
export type SamplingKind = "cpu" | "heap";

/** `HeapProfiler.SamplingHeapProfile` of the inspector protocol, with what the runtime's own type leaves out. */
interface HeapProfile {
  head: HeapNode;
  samples: { size: number; nodeId: number }[];
}

export interface HeapNode {
  callFrame: Runtime.CallFrame;
  /** Bytes. */
  selfSize: number;
  id: number;
  children: HeapNode[];
}

export type ProfileOf<K extends SamplingKind> = K extends "cpu" ? Profiler.Profile : HeapProfile;

export interface ThreadProfile<K extends SamplingKind = SamplingKind> {
  /** `main`, `sessions-1`, `work-1`. */
  thread: string;
  profile: ProfileOf<K>;
}

export interface SampledThreads {
  /** Begins in every thread; the returned function ends it and returns the profiles. A thread that does not answer is left out. */
  sample<K extends SamplingKind>(kind: K): Promise<() => Promise<ThreadProfile<K>[]>>;
}

/** Begins to sample this thread; the returned function ends it. Needs `--allow-sys=inspector`. */
export async function sampleThread<K extends SamplingKind>(kind: K): Promise<() => Promise<ProfileOf<K>>> {
  const session = new Session();
  session.connect();
  const post = (method: string, parameters: object = {}): Promise<unknown> =>
    new Promise((resolve, reject) => {
      session.post(method, parameters, (error, result) => error ? reject(error) : resolve(result));
    });
  const [domain, start, stop] = kind === "cpu"
    ? ["Profiler", "start", "stop"]
    : ["HeapProfiler", "startSampling", "stopSampling"];
  try {
    await post(`${domain}.enable`);
    if (kind === "cpu") await post("Profiler.setSamplingInterval", { interval: SAMPLING_INTERVAL_US });
    await post(`${domain}.${start}`, kind === "cpu" ? {} : { samplingInterval: HEAP_SAMPLING_BYTES });
  } catch (error) {
    session.disconnect();
    throw error;
  }
  return async () => {
    try {
      const { profile } = await post(`${domain}.${stop}`) as { profile: ProfileOf<K> };
      return profile;
    } finally {
      session.disconnect();
    }
  };
}
