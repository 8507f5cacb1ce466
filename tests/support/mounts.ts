/**
 * File systems of any kind and size for tests, mounted for the time of one test: a disk
 * to fill, one that clones blocks, one that may only be read. Needs root and loop devices.
 */

/** A kind of file system: `xfs` clones blocks, the others do not; `ext4-1k` has blocks of 1 KiB. */
export type MountKind = "xfs" | "ext4" | "ext4-1k" | "tmpfs";

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

/** A mounted file system; disposing of it unmounts it and removes all traces. */
export interface Mounted extends AsyncDisposable {
  /** Its root. */
  directory: string;
}

async function mountAt(prepare: (place: string) => Promise<string[]>): Promise<Mounted> {
  const place = await Deno.makeTempDir({ prefix: "mount-" });
  const directory = `${place}/root`;
  const remove = () => Deno.remove(place, { recursive: true });
  try {
    await Deno.mkdir(directory);
    await run("mount", ...await prepare(place), directory);
  } catch (error) {
    await remove();
    throw error;
  }
  return {
    directory,
    [Symbol.asyncDispose]: async () => {
      await unmount(directory);
      await remove();
    },
  };
}

/** Mounts an empty file system of `kind` and `size_mb` MiB. */
export function mount(kind: MountKind, size_mb: number): Promise<Mounted> {
  return mountAt(async (place) => {
    if (kind === "tmpfs") return ["-t", "tmpfs", "-o", `size=${size_mb}m`, "tmpfs"];
    const image = `${place}/image`;
    await Deno.writeFile(image, new Uint8Array());
    await Deno.truncate(image, size_mb * 1024 * 1024);
    const [type, ...small] = kind.split("-");
    await run(`mkfs.${type}`, "-q", ...small.length > 0 ? ["-b", "1024"] : [], image);
    return ["-t", type!, "-o", "loop", image];
  });
}

/** Runs `fn` with the root of an empty file system of `kind` and `size_mb` MiB, always unmounted. */
export async function withMount<T>(
  kind: MountKind,
  size_mb: number,
  fn: (directory: string) => Promise<T>,
): Promise<T> {
  await using mounted = await mount(kind, size_mb);
  return await fn(mounted.directory);
}

/** A second path to `directory` through which nothing may be written: permission bits do not bind root. */
export function mountReadOnlyView(directory: string): Promise<Mounted> {
  return mountAt(() => Promise.resolve(["--bind", "-o", "ro", directory]));
}

/** Mounts an empty tmpfs of `size_mb` MiB over the directory at `path`: another file system in the middle of one. */
export async function mountOver(path: string, size_mb: number): Promise<AsyncDisposable> {
  await run("mount", "-t", "tmpfs", "-o", `size=${size_mb}m`, "tmpfs", path);
  return { [Symbol.asyncDispose]: () => unmount(path) };
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
