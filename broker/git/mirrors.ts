/**
 * Mirrors: of each repository that tasks begin from, what they have fetched of it is kept, so that the next task fetches
 * what is new alone.
 *
 *     root/<key>/        a bare repository, shallow; its `description` names the repository
 *     root/<key>.lock    held while the mirror is used or removed; its time is that of the last use; its holder first
 *                        ends calls of git that outlived the broker which held it before
 *     root/<key>.gone/   being removed
 *
 * A mirror only saves work. The code host is asked for every task, with the operator's credentials, none of which is
 * written here; git checks every object that comes. Packs are never written again, so a task's git directory, which no
 * sandbox sees, has links to them: it needs the mirror no longer. A mirror that a killed process left in any state is
 * used by the next, or fails it; who staged then goes to the code host, and has the mirror thrown away.
 */

import { createHash } from "node:crypto";
import type { Clock } from "../../lib/clock.ts";
import { hasCode, TaskdError } from "../../lib/errors.ts";
import {
  fileError,
  fileErrorCode,
  fsyncDirectory,
  fsyncFile,
  isStillAt,
  lstatIfPresent,
  makeDirectories,
  namesIn,
  unlockAndClose,
  withFileError,
} from "../../lib/fs.ts";
import { removeTree } from "../../lib/remove_tree.ts";
import { sanitizeLine } from "../../lib/text/sanitize.ts";
import type { Git, GitRunOptions } from "./git.ts";
import { requireOwnShape } from "./repository_shape.ts";
import { fetchArguments } from "./remote_refs.ts";
import type { RepoUrl } from "./repo_url.ts";

/** Each task whose base has moved adds one; git looks into all of them, so a mirror with more is made anew. */
const MAX_PACKS = 100;
/** Between two looks at a mirror that another task uses. */
const POLL_MS = 50;
const MIRROR = /^([0-9a-f]{64})(?:\.gone)?$/;
const PACK = /^pack-[0-9a-f]+\.(?:pack|rev|idx)$/;

export interface MirrorUse {
  repo: string;
  bytes: number;
  /** ISO 8601, UTC. */
  last_used_at: string;
}

export interface MirrorOptions {
  /** Absolute. */
  root: string;
  quota_bytes: number;
  clock: Clock;
  /** Ends the processes with such a command line, and their groups; false when some do not end. */
  endProcesses: (isOne: (command_line: string) => boolean, signal: AbortSignal | undefined) => Promise<boolean>;
  onWarning: (message: string) => void;
}

export class Mirrors {
  readonly #options: MirrorOptions;

  constructor(options: MirrorOptions) {
    this.#options = options;
  }

  /**
   * Fetches a commit or tag into the repository's mirror, and gives a fresh git directory all that the mirror has.
   * `refs/taskd/base` of the directory names the target.
   *
   * @throws {TaskdError} As {@linkcode Git.run}, also because of the mirror.
   */
  async fetch(
    git: Git,
    { url, target, git_dir, remote }: { url: RepoUrl; target: string; git_dir: string; remote: GitRunOptions },
  ): Promise<void> {
    const path = this.#path(url);
    try {
      makeDirectories(this.#options.root);
      Deno.chmodSync(this.#options.root, 0o700);
      using _use = await this.#hold(path, remote.signal);
      await this.#prepare(git, path, url, remote);
      const args = fetchArguments(url, "--depth=1", `+${target}:refs/taskd/tips/${target}`);
      // As a pack, like every fetch: what is linked is never written again.
      await git.run(within(path, args), { ...remote, repository: { git_dir: path } });
      await refuseBroken(git, path, remote);
      // Git behind its wall has written there since the last look.
      requireOwnShape(path, remote.attempted);
      await linkObjects(path, git_dir);
    } catch (error) {
      throw remote.signal?.aborted === true ? error : fileError(error, `${remote.attempted} through its mirror`);
    }
    await git.run(["update-ref", "refs/taskd/base", target], {
      attempted: remote.attempted,
      signal: remote.signal,
      repository: { git_dir },
    });
    await this.#makeRoom().catch((error) => this.#options.onWarning(fileError(error, "Cannot trim mirrors").message));
  }

  /** Throws a mirror away, unless another task uses it: `reason` is what made it useless. */
  async discard(url: RepoUrl, reason: string): Promise<void> {
    this.#options.onWarning(`The mirror of ${url.canonical} is thrown away, a new one is made: ${reason}`);
    await this.#remove(this.#path(url));
  }

  /** Removes mirrors that no task has begun from since, and says which; a dry run only says so. */
  async prune({ before_ms, dry_run }: { before_ms: number; dry_run: boolean }): Promise<MirrorUse[]> {
    const pruned: MirrorUse[] = [];
    for (const { path, ...use } of this.#list()) {
      if (Date.parse(use.last_used_at) < before_ms && (dry_run || await this.#remove(path))) pruned.push(use);
    }
    return pruned;
  }

  /** Removes the longest unused until the others are within the quota, and what a killed process left of others. */
  async #makeRoom(): Promise<void> {
    const mirrors = this.#list();
    let total = mirrors.reduce((sum, { bytes }) => sum + bytes, 0);
    for (const { path, bytes } of mirrors) {
      if (total <= this.#options.quota_bytes && lstatIfPresent(`${path}.gone`) === undefined) continue;
      if (await this.#remove(path, total > this.#options.quota_bytes)) total -= bytes;
    }
  }

  #path(url: RepoUrl): string {
    return `${this.#options.root}/${createHash("sha256").update(url.canonical).digest("hex")}`;
  }

  /** The longest unused first. */
  #list(): (MirrorUse & { path: string })[] {
    const { root } = this.#options;
    const keys = new Set(namesIn(root).flatMap((name) => MIRROR.exec(name)?.[1] ?? []));
    const found = withFileError(`Cannot look into ${root}`, () => [...keys].map((key) => useOf(`${root}/${key}`)));
    return found.sort((a, b) => a.last_used_at < b.last_used_at ? -1 : 1);
  }

  /** Waits until no one else, here or in another process, uses the mirror; this use counts as its last. */
  async #hold(path: string, signal: AbortSignal | undefined): Promise<Disposable> {
    for (;;) {
      const lock = await this.#tryHold(path, signal);
      if (lock !== undefined) {
        const now = new Date(this.#options.clock.now());
        Deno.utimeSync(`${path}.lock`, now, now);
        return lock;
      }
      await this.#options.clock.sleep(POLL_MS, signal);
    }
  }

  /** The lock of a mirror in which no call of git is under way; undefined while someone else has it. */
  async #tryHold(path: string, signal?: AbortSignal): Promise<Disposable | undefined> {
    using held = new DisposableStack();
    const lock = tryHold(path);
    if (lock === undefined) return undefined;
    held.use(lock);
    // Git calls the writer of packs so, which may outlive even the call that began it.
    const [own, packer] = [` ${within(path, [])[0]} `, ` --shallow-file ${path}/`];
    const isOne = (line: string) => line.includes(own) || line.includes(packer);
    if (await this.#options.endProcesses(isOne, signal)) return held.move();
    throw new TaskdError("unavailable", `Cannot use the mirror ${path}: an earlier broker's call of git does not end`);
  }

  /** A mirror that can be fetched into. */
  async #prepare(git: Git, path: string, { canonical }: RepoUrl, { attempted, signal }: GitRunOptions): Promise<void> {
    await dropUnfinished(path);
    if (namesIn(`${path}/objects/pack`).filter((name) => name.endsWith(".idx")).length >= MAX_PACKS) await sweep(path);
    if (lstatIfPresent(path) !== undefined) return;
    await Deno.mkdir(path, { mode: 0o700 });
    const init = within(path, ["init", "--quiet", "--bare", "--template="]);
    await git.run(init, { attempted, signal, repository: { git_dir: path } });
    await Deno.writeTextFile(`${path}/description`, `${canonical}\n`, { mode: 0o600 });
  }

  /** Removes a mirror that no one uses, or only what is left of an older one; false when it is in use. */
  async #remove(path: string, whole = true): Promise<boolean> {
    try {
      using lock = await this.#tryHold(path);
      if (lock === undefined) return false;
      await sweep(path, whole);
      if (whole) await Deno.remove(`${path}.lock`);
      return true;
    } catch (error) {
      this.#options.onWarning(fileError(error, `Cannot remove the mirror ${path}`).message);
      return false;
    }
  }
}

/** Arguments of a call of git that writes in a mirror: the next holder of its lock knows the call by them. */
function within(path: string, args: readonly string[]): string[] {
  return [`--git-dir=${path}`, ...args];
}

/** The lock of a mirror; undefined while someone else has it. It goes with the process. */
function tryHold(path: string): Disposable | undefined {
  for (;;) {
    const file = Deno.openSync(`${path}.lock`, { read: true, write: true, create: true, mode: 0o600 });
    if (!file.tryLockSync(true)) {
      file.close();
      return undefined;
    }
    // It may have been removed with its mirror.
    if (isStillAt(file, `${path}.lock`)) return { [Symbol.dispose]: () => unlockAndClose(file) };
    file.close();
  }
}

/** Removes the locks and the half-written files of calls of git that were killed: none is at work. */
async function dropUnfinished(folder: string): Promise<void> {
  if (lstatIfPresent(folder) === undefined) return;
  for (const { name, isDirectory } of [...Deno.readDirSync(folder)]) {
    // No ref's name ends so.
    if (/^\.?tmp_|\.lock$/.test(name)) await removeTree(`${folder}/${name}`);
    else if (isDirectory) await dropUnfinished(`${folder}/${name}`);
  }
}

/** Takes a mirror away in one step; then its files go. */
async function sweep(path: string, whole = true): Promise<void> {
  await removeTree(`${path}.gone`);
  if (!whole || lstatIfPresent(path) === undefined) return;
  await Deno.rename(path, `${path}.gone`);
  await removeTree(`${path}.gone`);
}

function useOf(path: string): MirrorUse & { path: string } {
  let bytes = 0;
  for (const packs of [`${path}/objects/pack`, `${path}.gone/objects/pack`]) {
    for (const name of namesIn(packs)) bytes += lstatIfPresent(`${packs}/${name}`)?.size ?? 0;
  }
  const last_used_at = (lstatIfPresent(`${path}.lock`)?.mtime ?? new Date(0)).toISOString();
  return { path, repo: describe(path), bytes, last_used_at };
}

function describe(path: string): string {
  try {
    return sanitizeLine(Deno.readTextFileSync(`${path}/description`).trimEnd());
  } catch {
    // Killed before it had one.
    return "";
  }
}

/** Git does without an index that it cannot read, and says so. */
async function refuseBroken(git: Git, git_dir: string, { attempted, signal }: GitRunOptions): Promise<void> {
  const { stderr } = await git.run(["count-objects", "-v"], { attempted, signal, repository: { git_dir } });
  if (stderr !== "") throw new TaskdError("corrupt", `Cannot use the mirror: ${sanitizeLine(stderr).slice(0, 300)}`);
}

/** Gives a fresh git directory the objects of a mirror, and where their history is cut off. */
async function linkObjects(mirror: string, git_dir: string): Promise<void> {
  const [from, to] = [`${mirror}/objects/pack`, `${git_dir}/objects/pack`];
  // An index last: git finds a pack by it.
  const names = [...Deno.readDirSync(from)].map(({ name }) => name).filter((name) => PACK.test(name));
  for (const name of names.sort((a, b) => Number(a.endsWith(".idx")) - Number(b.endsWith(".idx")))) {
    if (name.endsWith(".idx")) refuseTorn(`${from}/${name}`, `${from}/${name.slice(0, -4)}.pack`);
    await linkOrCopy(`${from}/${name}`, `${to}/${name}`);
  }
  await fsyncDirectory(to);
  try {
    await Deno.copyFile(`${mirror}/shallow`, `${git_dir}/shallow`);
    await fsyncFile(`${git_dir}/shallow`);
  } catch (error) {
    // Every commit that was fetched is a first one.
    if (fileErrorCode(error) !== "not_found") throw error;
  }
}

/** An index ends with the digest that its pack ends with, and one of its own: git does without a pack that is not whole. */
function refuseTorn(index: string, pack: string): void {
  const digest = tail(index, 40).subarray(0, 20);
  if (tail(pack, 20).some((byte, at) => byte !== digest[at])) {
    throw new TaskdError("corrupt", `Cannot use ${pack}: it is not the one that its index was made of`);
  }
}

/** The last bytes of a file; zeros where it has fewer. */
function tail(path: string, count: number): Uint8Array {
  using file = Deno.openSync(path);
  const bytes = new Uint8Array(count);
  if (file.statSync().size < count) return bytes;
  file.seekSync(-count, Deno.SeekMode.End);
  file.readSync(bytes);
  return bytes;
}

async function linkOrCopy(from: string, to: string): Promise<void> {
  try {
    await Deno.link(from, to);
  } catch (error) {
    if (hasCode(error, "not_found") || fileErrorCode(error) === "no_space") throw error;
    // Another file system, or one without links.
    await Deno.copyFile(from, to);
    await fsyncFile(to);
  }
}
