/**
 * A file system whose power can be cut: on a loop device, ended by FS_IOC_SHUTDOWN without a flush of its log
 * (Linux, include/uapi/linux/fs.h). What the file system has not written to the device by then is lost, as it would be
 * to a machine without power; what was fsynced is there. Needs root, loop devices and python3.
 */

import { basename } from "@std/path/basename";
import { systemClock } from "../../lib/clock.ts";
import { run } from "./_programs.ts";

/** Kinds of file systems, and how each is made and mounted. */
export const FILE_SYSTEMS = {
  "ext4": { make: ["mkfs.ext4", "-q"], size_mb: 256, mount: "loop" },
  "ext4-commit300": { make: ["mkfs.ext4", "-q"], size_mb: 256, mount: "loop,commit=300" },
  "ext4-writeback": { make: ["mkfs.ext4", "-q"], size_mb: 256, mount: "loop,data=writeback" },
  "xfs": { make: ["mkfs.xfs", "-q"], size_mb: 320, mount: "loop" },
} as const;

/** One of them. */
export type FileSystem = keyof typeof FILE_SYSTEMS;

/** Opens the directory of its first argument, and ends that file system when a line comes. */
const CUTTER = `
import fcntl, os, struct, sys
FS_IOC_SHUTDOWN, NOLOGFLUSH = 0x8004587d, struct.pack("I", 2)
root = os.open(sys.argv[1], os.O_RDONLY)
print("ready", flush=True)
if sys.stdin.readline():
    fcntl.ioctl(root, FS_IOC_SHUTDOWN, NOLOGFLUSH)
    print("cut", flush=True)
`;
import { textLines } from "../support/text_lines.ts";
/** How long processes that were killed may keep the file system busy. */
const UNMOUNT_MS = 20_000;

/** A disk and its file system. */
export class Disk implements AsyncDisposable {
  /** Its root. */
  readonly directory: string;
  readonly #place: string;
  readonly #image: string;
  readonly #kind: FileSystem;
  #cutter: Deno.ChildProcess | undefined;
  #said: AsyncIterator<string> | undefined;
  #mounted = false;

  private constructor(kind: FileSystem, place: string, image: string) {
    this.#kind = kind;
    this.#place = place;
    this.#image = image;
    this.directory = `${place}/root`;
  }

  /** Makes an empty one and mounts it. */
  static async make(kind: FileSystem): Promise<Disk> {
    const { make: [command, ...args], size_mb } = FILE_SYSTEMS[kind];
    const place = await Deno.makeTempDir({ prefix: "powercut-" });
    // In memory where that is possible: the device is no part of what is tested.
    const in_memory = await Deno.stat("/dev/shm").then(() => true, () => false);
    const disk = new Disk(kind, place, in_memory ? `/dev/shm/${basename(place)}` : `${place}/image`);
    try {
      await Deno.mkdir(disk.directory);
      await Deno.writeFile(disk.#image, new Uint8Array());
      await Deno.truncate(disk.#image, size_mb * 1024 * 1024);
      await run(command, ...args, disk.#image);
      await disk.mount();
      return disk;
    } catch (error) {
      await disk[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** Mounts it, as a machine does that comes up again. */
  async mount(): Promise<void> {
    const until_ms = systemClock.monotonic() + UNMOUNT_MS;
    for (;;) {
      await run("mount", "-o", FILE_SYSTEMS[this.#kind].mount, this.#image, this.directory);
      this.#mounted = true;
      if (this.#answers()) break;
      // A container that was started meanwhile has a copy of the mount, and with it the file system that was ended.
      if (systemClock.monotonic() > until_ms) throw new Error("something else keeps the file system mounted");
      await this.unmount();
      await systemClock.sleep(200);
    }
    this.#cutter = new Deno.Command("python3", {
      args: ["-c", CUTTER, this.directory],
      stdin: "piped",
      stdout: "piped",
    }).spawn();
    this.#said = textLines(this.#cutter.stdout);
    if ((await this.#said.next()).value !== "ready") throw new Error("the cutter did not start");
  }

  #answers(): boolean {
    try {
      Deno.removeSync(Deno.makeTempFileSync({ dir: this.directory }));
      return true;
    } catch {
      return false;
    }
  }

  /** Writes everything that waits to the device, as a machine does that was left alone for a while. */
  async settle(): Promise<void> {
    await run("sync", "-f", this.directory);
  }

  /** Cuts the power: from when this resolves, nothing more reaches the device. */
  async cut(): Promise<void> {
    const input = this.#cutter!.stdin.getWriter();
    await input.write(new TextEncoder().encode("cut\n"));
    if ((await this.#said!.next()).value !== "cut") throw new Error("the power could not be cut");
    input.releaseLock();
  }

  /** Unmounts it; every process that used it must have been killed. */
  async unmount(): Promise<void> {
    await this.#cutter?.stdin.close().catch(() => {});
    await this.#cutter?.status;
    await this.#said?.next();
    const until_ms = systemClock.monotonic() + UNMOUNT_MS;
    while (this.#mounted) {
      try {
        await run("umount", this.directory);
        this.#mounted = false;
      } catch (error) {
        if (systemClock.monotonic() > until_ms) throw error;
        await systemClock.sleep(50);
      }
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      await this.unmount();
    } finally {
      if (!this.#mounted) {
        await Deno.remove(this.#image).catch(() => {});
        await Deno.remove(this.#place, { recursive: true });
      }
    }
  }
}
