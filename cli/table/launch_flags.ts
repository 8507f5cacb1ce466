/** The flags of deno that the program is started with. */

/**
 * A young generation of this many MiB at most in each thread: a daemon's short-lived garbage is small. By V8's own choice
 * a store daemon under load grows by 40 MB for each busy thread. A thread that runs cannot set it for those that it starts.
 */
export const YOUNG_GENERATION = "--v8-flags=--max-semi-space-size=4";

/** The kinds of permission that some command needs; imports from the registry the runtime allows by itself. */
export const LAUNCH_KINDS = ["read", "write", "net", "run", "env", "sys"] as const;

/**
 * The flags the program is started with: the limit of the young generation, and the kinds of permission. Each call then
 * narrows itself to its own set, item by item. No kind has a list here, because none is known before the call: paths,
 * sockets and hosts are arguments and settings; the variable that holds the key of a model's endpoint has whatever name
 * the settings give it; and the program that runs sandboxes may be the very one that runs this.
 */
export function launchFlags(): string[] {
  const kinds = LAUNCH_KINDS.map((kind) => `--allow-${kind}`);
  return ["--no-prompt", "--unstable-worker-options", YOUNG_GENERATION, ...kinds];
}
