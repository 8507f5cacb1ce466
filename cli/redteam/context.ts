/**
 * What attacks are carried out on: those parts of this installation that the machine has a share in, in a folder of
 * their own, and the installed broker's files, which are only inspected.
 *
 * The parts are exchangeable, so that a test can replace each with a broken one and see that the attack finds it.
 */

import { type Clock, type RandomBytes, systemClock, systemRandom } from "../../lib/clock.ts";
import { withDeadline } from "../../lib/deadline.ts";
import { fileError } from "../../lib/fs.ts";
import { removeTree } from "../../lib/remove_tree.ts";
import { Dialer, type DialerOptions } from "../../broker/egress/dialer.ts";
import { collectFacts } from "../../broker/git/diff_facts.ts";
import { behindWall } from "../../broker/git/git_wall.ts";
import { DenoRuntime, type DenoRuntimeOptions } from "../../broker/sandbox/deno_runtime.ts";
import type { PROGRAM_PATHS } from "../../broker/sandbox/host_programs.ts";
import type { SandboxRuntime } from "../../broker/sandbox/runtime.ts";
import { readKeys } from "../../broker/settings/keys.ts";
import type { OpenHostSandboxes } from "./host_sandboxes.ts";
import type { OpenNetwork } from "./sandbox_network.ts";

/** How long the end of everything may take: sandboxes, and a network of containers. */
const END_MS = 60_000;

/** Parts of the installation that are attacked. */
export interface Surfaces {
  collectFacts: typeof collectFacts;
  behindWall: typeof behindWall;
  readKeys: typeof readKeys;
  dialer(options: DialerOptions): Pick<Dialer, "addresses">;
  embedded(options: DenoRuntimeOptions): Pick<SandboxRuntime, "start">;
}

const INSTALLED_SURFACES: Surfaces = {
  collectFacts,
  behindWall,
  readKeys,
  dialer: (options) => new Dialer(options),
  embedded: (options) => new DenoRuntime(options),
};

/** Where the installed broker keeps its things; only their modes are inspected. */
export interface InstalledFiles {
  /** `~/.taskd`. */
  directory: string;
  audit_root: string;
  squid_run_dir: string;
  /** The socket of the broker that runs; undefined when none does. */
  live_socket?: string;
}

export interface RedteamOptions {
  /** An existing directory below which the scratch folder is made. */
  temporary: string;
  /** A variable of the environment: what runs sandboxes finds its own state by it. No key is asked for. */
  env: (name: string) => string | undefined;
  deno_path: string;
  deno_cache_dir: string;
  /** Where the host's programs may be; by default fixed places. */
  programs?: Partial<typeof PROGRAM_PATHS> | undefined;
  /** The installed broker; absent when nothing is set up. */
  installed?: InstalledFiles;
  /** Containers of this host, or why there are none. */
  containers: OpenNetwork | { why: string };
  /** Sandboxes for programs of this host, or why there are none. */
  host_sandboxes: OpenHostSandboxes | { why: string };
  surfaces?: Partial<Surfaces>;
  clock?: Clock;
  random?: RandomBytes;
}

/** A scratch folder and what is attacked; everything is gone once it is disposed of. */
export class RedteamContext implements AsyncDisposable {
  readonly scratch: string;
  readonly options: RedteamOptions;
  readonly surfaces: Surfaces;
  readonly clock: Clock;
  readonly random: RandomBytes;
  readonly #cleanup = new AsyncDisposableStack();
  readonly #kept = new Map<string, Promise<unknown>>();
  #folders = 0;

  private constructor(scratch: string, options: RedteamOptions) {
    this.scratch = scratch;
    this.options = options;
    this.surfaces = { ...INSTALLED_SURFACES, ...options.surfaces };
    this.clock = options.clock ?? systemClock;
    this.random = options.random ?? systemRandom;
  }

  static async open(options: RedteamOptions): Promise<RedteamContext> {
    try {
      // Short, because the path of a socket is.
      const scratch = await Deno.makeTempDir({ dir: options.temporary, prefix: "taskd-rt-" });
      return new RedteamContext(await Deno.realPath(scratch), options);
    } catch (error) {
      throw fileError(error, `Cannot make a folder in ${options.temporary}`);
    }
  }

  async folder(): Promise<string> {
    const path = `${this.scratch}/${++this.#folders}`;
    await Deno.mkdir(path, { mode: 0o700 });
    return path;
  }

  /** Makes something that several promises share, once; one that cannot be made fails each of them. */
  once<T>(name: string, make: () => Promise<T>): Promise<T> {
    const known = this.#kept.get(name) as Promise<T> | undefined;
    if (known !== undefined) return known;
    const made = make();
    this.#kept.set(name, made);
    return made;
  }

  /** Ends something with the context, the latest first. */
  defer(end: () => void | Promise<void>): void {
    this.#cleanup.defer(end);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      // What an attack has left hanging is not waited for.
      await withDeadline(this.#cleanup.disposeAsync(), this.clock, END_MS);
    } finally {
      await removeTree(this.scratch, this.clock);
    }
  }
}
