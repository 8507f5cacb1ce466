/**
 * Helpers: modules of this program that work on hostile input in a process of their own, which may do less than the
 * program itself.
 *
 * From source, and installed, deno runs the module under flags. A compiled program has no deno: it starts itself with
 * the word `internal` and the same limits, and gives them to the thread that runs the module; see cli/run/internal.ts.
 */

/** The helpers by their names in a compiled program. */
export type HelperName = "agent" | "files" | "forwarder" | "hostile-agent" | "inspector";

/** A helper, and all that it may do. */
export interface Helper {
  name: HelperName;
  module: string;
  /** Paths it may read and write; relative ones start at the directory that the process starts in. None: no file. */
  folders: readonly string[];
  /** What it may connect to, or listen on: `host:port`, and others after commas. */
  net?: string;
  /** Largest JavaScript heap, MiB. */
  heap_mib: number;
  /** The last argument, by which others know the process; the helper does not read it. */
  marker?: string;
}

/** The word by which a compiled program is a helper. */
export const INTERNAL = "internal";

const FILE_KINDS = ["read", "write"];

/** How the command line of a helper begins, after the program: what marks a process as one. */
export function helperPrefix(compiled: boolean = Deno.build.standalone): string {
  return compiled ? `${INTERNAL} ` : "run --no-prompt ";
}

/** The arguments with which this program's runtime becomes the helper. */
export function helperArgs(helper: Helper, compiled: boolean = Deno.build.standalone): string[] {
  const { name, module, folders, net, heap_mib, marker } = helper;
  // An empty list would allow everything.
  const allowed = [
    ...(folders.length === 0 ? [] : FILE_KINDS.map((kind) => `--allow-${kind}=${folders.join(",")}`)),
    ...(net === undefined ? [] : [`--allow-net=${net}`]),
  ];
  const last = marker === undefined ? [] : [marker];
  if (compiled) return [INTERNAL, name, ...allowed, `--heap-mib=${heap_mib}`, ...last];
  const denied = [
    ...["env", "run", "sys", "ffi"],
    ...(folders.length === 0 ? FILE_KINDS : []),
    ...(net === undefined ? ["net"] : []),
  ];
  return [
    "run",
    "--no-prompt",
    "--no-config",
    "--no-lock",
    "--no-npm",
    "--cached-only",
    "--no-check",
    ...moduleFlags(new URL(module)),
    `--v8-flags=--max-old-space-size=${heap_mib}`,
    ...allowed,
    ...denied.map((kind) => `--deny-${kind}`),
    module,
    ...last,
  ];
}

/**
 * Which modules it may import. Those of a package come from its registry's host, where `--deny-import` would refuse the
 * package's own; `--cached-only` keeps it from fetching any other.
 */
function moduleFlags({ protocol, hostname, port }: URL): string[] {
  if (protocol === "file:") return ["--no-remote", "--deny-import"];
  return [`--allow-import=${hostname}:${port || (protocol === "http:" ? 80 : 443)}`];
}

/** The environment of a helper: deno's own variables, which the helper cannot read. */
export function helperEnv(cache_dir: string): Record<string, string> {
  return { DENO_DIR: cache_dir, DENO_NO_UPDATE_CHECK: "1", DENO_NO_PACKAGE_JSON: "1", NO_COLOR: "1" };
}

/** Where deno keeps what it has compiled, by deno's own rule. */
export function denoCache(home: string, env: (name: string) => string | undefined): string {
  const own = env("DENO_DIR");
  if (own?.startsWith("/")) return own;
  if (Deno.build.os === "darwin") return `${home}/Library/Caches/deno`;
  const caches = env("XDG_CACHE_HOME");
  return `${caches?.startsWith("/") ? caches : `${home}/.cache`}/deno`;
}
