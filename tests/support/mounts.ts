/**
 * File systems of any kind and size for tests, mounted for the time of one test: a disk
 * to fill, one that clones blocks, one that may only be read. Needs root and loop devices.
 *
 * @module
 */

/** A kind of file system: `xfs` clones blocks, the others do not. */
export type MountKind = "xfs" | "ext4" | "tmpfs";

/** XFS makes no smaller one. */
export const MIN_XFS_MB = 300;

async function run(command: string, ...args: string[]): Promise<void> {
  const { success, stderr } = await new Deno.Command(command, { args, stdout: "null", stderr: "piped" }).output();
  if (!success) throw new Error(`${command} ${args.join(" ")}: ${new TextDecoder().decode(stderr).trim()}`);
}

async function unmount(path: string): Promise<void> {
  try {
    await run("umount", path);
  } catch {
    // Something in it is still open, perhaps of a process that is being killed: it goes when that closes.
    await run("umount", "--lazy", path);
  }
}

/** Mounts by `args` at a new directory, runs `fn` with it, and takes all of it away again. */
async function mounted<T>(
  prepare: (directory: string) => Promise<string[]>,
  fn: (directory: string) => Promise<T>,
): Promise<T> {
  const place = await Deno.makeTempDir({ prefix: "mount-" });
  try {
    const directory = `${place}/root`;
    await Deno.mkdir(directory);
    await run("mount", ...await prepare(place), directory);
    try {
      return await fn(directory);
    } finally {
      await unmount(directory);
    }
  } finally {
    await Deno.remove(place, { recursive: true });
  }
}

/** Runs `fn` with the root of an empty file system of `kind` and `size_mb` MiB, unmounted whatever happens. */
export function withMount<T>(kind: MountKind, size_mb: number, fn: (directory: string) => Promise<T>): Promise<T> {
  return mounted(async (place) => {
    if (kind === "tmpfs") return ["-t", "tmpfs", "-o", `size=${size_mb}m`, "tmpfs"];
    const image = `${place}/image`;
    await Deno.writeFile(image, new Uint8Array());
    await Deno.truncate(image, size_mb * 1024 * 1024);
    await run(`mkfs.${kind}`, "-q", image);
    return ["-t", kind, "-o", "loop", image];
  }, fn);
}

/** Runs `fn` with a second path to `directory` through which nothing may be written: permission bits do not bind root. */
export function withReadOnlyView<T>(directory: string, fn: (view: string) => Promise<T>): Promise<T> {
  return mounted(() => Promise.resolve(["--bind", "-o", "ro", directory]), fn);
}

/**
 * Whether this machine can mount `kind`; when it cannot, says why, for a test's `ignore` and its name:
 * `{ name: "..." + why, ignore: why !== "" }`.
 */
export async function whyNotMountable(kind: MountKind): Promise<string> {
  try {
    await withMount(kind, kind === "xfs" ? MIN_XFS_MB : 8, () => Promise.resolve());
    return "";
  } catch (error) {
    return ` (ignored: ${kind} cannot be mounted: ${error instanceof Error ? error.message : error})`;
  }
}
