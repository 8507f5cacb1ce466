/**
 * How many descriptors a daemon may have open, and how it divides them: no number of connections takes those that its own
 * work needs, nor all those of its unix socket.
 */

/** What a daemon keeps for files, workers and programs: a share of the limit, at most so many. */
const OWN_SHARE = 0.5;
const MAX_OWN = 4_096;

export interface ConnectionUse {
  /** Connections at once, however many descriptors there are. */
  most: number;
  /** Descriptors that one takes. */
  descriptors: number;
  /** Its share of what is free; those of all uses add up to 1 at most. */
  share: number;
}

/** Connections of each use where `open_files` descriptors may be open; without a known limit the most of each. */
export function connectionLimits<N extends string>(
  open_files: number | undefined,
  uses: Record<N, ConnectionUse>,
): Record<N, number> {
  const limit = open_files ?? Infinity;
  const free = limit - Math.min(MAX_OWN, Math.ceil(limit * OWN_SHARE));
  const entries = Object.entries<ConnectionUse>(uses).map(([name, { most, descriptors, share }]) => {
    return [name, Math.max(1, Math.min(most, Math.floor(free * share / descriptors)))];
  });
  return Object.fromEntries(entries);
}

/**
 * The descriptors that this process may have open: setrlimit(2), RLIMIT_NOFILE. Undefined when the shell cannot say.
 * Requires `--allow-run=/bin/sh`.
 */
export function openFileLimit(): number | undefined {
  try {
    const { stdout } = new Deno.Command("/bin/sh", { args: ["-c", "ulimit -n"], stderr: "null" }).outputSync();
    const text = new TextDecoder().decode(stdout).trim();
    return /^[1-9]\d{0,9}$/.test(text) ? Number(text) : undefined;
  } catch {
    return undefined;
  }
}
