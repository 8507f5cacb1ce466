/**
 * One daemon per store: a lock of the operating system on `<store>/daemon.lock`, held
 * for the daemon's life and freed by the kernel however it dies. The file names its
 * holder, for messages and for clients; it is never removed, and its content counts
 * only while the lock is held.
 */

import { type Clock, systemClock, systemRandom } from "../clock.ts";
import { TaskdError } from "../errors.ts";
import { fileError, fileErrorCode, isStillAt, isThere, unlockAndClose, writeAllSync } from "../fs.ts";
import { parseSealedJson, sealJson } from "../sealed_json.ts";

export interface DaemonInfo {
  /** Its process id, on {@linkcode DaemonInfo.host}. */
  pid: number;
  /** The machine or container it runs on; empty when it may not know. */
  host: string;
  /** Absolute path of its socket; absent until it listens. */
  socket?: string;
  /** ISO 8601 UTC. */
  started_at: string;
}

/** The lock's file is of one size, so that each update is a single write that no reader sees in part. */
const FILE_BYTES = 2048;
/** Clients that check hold the lock shared for microseconds: this is far longer. */
const MAX_WAIT_MS = 5_000;
const PAUSE_MS = 2;

export function daemonLockPath(directory: string): string {
  return `${directory}/daemon.lock`;
}

export class DaemonLock implements Disposable {
  #file: Deno.FsFile;
  #path: string;
  #info: DaemonInfo;
  #released = false;

  /** Takes over `file`, which is locked. */
  constructor(file: Deno.FsFile, path: string, info: DaemonInfo) {
    this.#file = file;
    this.#path = path;
    this.#info = info;
    this.#write(info);
  }

  get info(): DaemonInfo {
    return { ...this.#info };
  }

  /**
   * Records where the daemon listens, once it does.
   *
   * @throws {TaskdError} `no_space`, `denied` or `unavailable`; `too_large` for a path over about 1,800 bytes.
   */
  update(change: { socket: string }): void {
    const info = { ...this.#info, ...change };
    this.#write(info);
    this.#info = info;
  }

  /** Releases the lock; may be called twice. */
  release(): void {
    if (this.#released) return;
    this.#released = true;
    unlockAndClose(this.#file);
  }

  [Symbol.dispose](): void {
    this.release();
  }

  #write(info: DaemonInfo): void {
    const json = new TextEncoder().encode(sealJson(JSON.stringify(info)));
    if (json.length >= FILE_BYTES) {
      throw new TaskdError("too_large", `Cannot write ${this.#path}: the socket's path is too long`, {
        hint: "Use a socket with a shorter path",
      });
    }
    const bytes = new Uint8Array(FILE_BYTES).fill(0x20);
    bytes.set(json);
    bytes[FILE_BYTES - 1] = 0x0a;
    try {
      this.#file.seekSync(0, Deno.SeekMode.Start);
      writeAllSync(this.#file, bytes);
    } catch (error) {
      throw fileError(error, `Cannot write ${this.#path}`);
    }
  }
}

/**
 * Makes this process the daemon of the store in `directory`, which must exist.
 *
 * @throws {TaskdError} `daemon_running`, naming the other's pid and socket; `not_found` when there is no such directory;
 * `denied`, `no_space` or `unavailable`.
 */
export async function acquireDaemonLock(directory: string, options: { clock?: Clock } = {}): Promise<DaemonLock> {
  const { clock = systemClock } = options;
  const path = daemonLockPath(directory);
  const deadline = clock.monotonic() + MAX_WAIT_MS;
  while (true) {
    const file = openLock(path);
    try {
      if (file.tryLockSync(true) && isStillAt(file, path)) {
        const started_at = new Date(clock.now()).toISOString();
        return new DaemonLock(file, path, { pid: Deno.pid, host: hostName(), started_at });
      }
      // A client that checks holds the lock shared, a daemon exclusively: a shared attempt distinguishes them.
      if (!file.tryLockSync(false)) throw alreadyRunning(directory, parseInfo(readSlot(file)));
    } catch (error) {
      unlockAndClose(file);
      throw fileError(error, `Cannot lock ${path}`);
    }
    unlockAndClose(file);
    if (clock.monotonic() >= deadline) {
      throw new TaskdError("unavailable", `Cannot lock ${path}: other processes keep it busy`, { hint: "Try again" });
    }
    await clock.sleep(PAUSE_MS * (1 + systemRandom(1)[0]! / 255));
  }
}

/**
 * The daemon that serves the store in `directory`, if one does now. Never waits, and takes nothing from a daemon.
 *
 * @throws {TaskdError} `denied` or `unavailable`.
 */
export async function readDaemonInfo(
  directory: string,
  options: { clock?: Clock } = {},
): Promise<DaemonInfo | undefined> {
  const { clock = systemClock } = options;
  const path = daemonLockPath(directory);
  const deadline = clock.monotonic() + 1_000;
  while (true) {
    const info = readHeld(path);
    if (info !== "unreadable") return info;
    // Its holder has locked it and not yet written it.
    if (clock.monotonic() >= deadline) {
      throw new TaskdError("unavailable", `Cannot read ${path}: a process holds it but does not say who it is`, {
        hint: "Find it with fuser and end it",
      });
    }
    await clock.sleep(PAUSE_MS);
  }
}

function readHeld(path: string): DaemonInfo | undefined | "unreadable" {
  try {
    // Opening a FIFO would never return.
    if (!Deno.statSync(path).isFile) throw notAFile(path);
    using file = Deno.openSync(path);
    // Shared, so that two clients never take each other for a daemon.
    if (file.tryLockSync(false)) return undefined;
    return parseInfo(readSlot(file)) ?? "unreadable";
  } catch (error) {
    if (fileErrorCode(error) === "not_found") return undefined;
    throw fileError(error, `Cannot read ${path}`);
  }
}

function notAFile(path: string): TaskdError {
  return new TaskdError("denied", `Cannot use ${path}: it is not a plain file`, { hint: "Move it away" });
}

function openLock(path: string): Deno.FsFile {
  try {
    const found = isThere(path) ? Deno.lstatSync(path) : undefined;
    if (found?.isFile === false) throw notAFile(path);
    return Deno.openSync(path, { read: true, write: true, create: true, mode: 0o600 });
  } catch (error) {
    throw fileError(error, `Cannot open ${path}`);
  }
}

function readSlot(file: Deno.FsFile): string {
  const bytes = new Uint8Array(FILE_BYTES);
  file.seekSync(0, Deno.SeekMode.Start);
  return new TextDecoder().decode(bytes.subarray(0, file.readSync(bytes) ?? 0));
}

function parseInfo(text: string): DaemonInfo | undefined {
  const value = parseSealedJson(text);
  // Where the checksum is not in its place, it is damaged, or of version 0.1.0, which wrote none.
  if (typeof value !== "object" || value === null || "sum" in value) return undefined;
  const { pid, host, socket, started_at } = value as Record<string, unknown>;
  if (typeof pid !== "number" || typeof host !== "string" || typeof started_at !== "string") return undefined;
  return { pid, host, started_at, ...(typeof socket === "string" ? { socket } : {}) };
}

function alreadyRunning(directory: string, info: DaemonInfo | undefined): TaskdError {
  const host = info?.host === undefined || info.host === "" ? "" : ` on ${info.host}`;
  const who = info === undefined ? "" : ` (pid ${info.pid}${host}, socket ${info.socket ?? "not open yet"})`;
  return new TaskdError("daemon_running", `Cannot serve ${directory}: another daemon does so already${who}`, {
    hint: info === undefined
      ? "Use that daemon, or stop it first"
      : `Use that daemon, or end it first: kill ${info.pid}`,
  });
}

/** Name of this host; empty where it may not be known. */
export function hostName(): string {
  try {
    return Deno.hostname();
  } catch {
    // Without --allow-sys=hostname: it only makes the message clearer.
    return "";
  }
}
