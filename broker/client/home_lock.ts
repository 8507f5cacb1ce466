/**
 * The lock of a broker's home, in the directory `~/.taskd/daemon.lock`, and the version of what the home holds, in the
 * file `version.json` beside it.
 *
 * Version 0.1.0 has its lock file in the place of that directory, knows no version, and would take ledger, queue and
 * traces with checksums for damaged, and write the ledger anew without them. In place of a lock file a directory is
 * refused by it before it reads anything. Later programs refuse a version that they do not know.
 */

import * as v from "valibot";
import { type Clock, systemClock } from "../../lib/clock.ts";
import { TaskdError } from "../../lib/errors.ts";
import { fileError, fileErrorCode, fsyncDirectory, lstatIfPresent, writeFileAtomic } from "../../lib/fs.ts";
import { parseSealedJson, sealJson } from "../../lib/sealed_json.ts";
import {
  acquireDaemonLock,
  type DaemonInfo,
  type DaemonLock,
  daemonLockPath,
  readDaemonInfo,
} from "../../lib/store/daemon_lock.ts";
import { taskdHome } from "../settings/load.ts";
import { readPrivateFile } from "../settings/private_file.ts";

/** Homes that this program reads, each with what it may hold and those before may not; it writes the last. */
const VERSIONS = { 1: "records without checksums", 2: "records with checksums" };
const NEWEST = Math.max(...Object.keys(VERSIONS).map(Number));

/** Other starts that may come between, one after the other. */
const MAX_RIVALS = 100;

const VERSION_FILE = v.strictObject({ version: v.pipe(v.number(), v.safeInteger(), v.minValue(1)) });

const NOTE =
  `A newer taskd than 0.1.0 has used this home. An older one refuses it because of this directory, which stands in
the place of its lock file. Do not move it away: docs/how-to/upgrade.md says how to go back.
`;

/** Where the lock of a home is: the directory of its own, or that of version 0.1.0, the home itself. */
export function lockDirectory(directory: string): string {
  const path = daemonLockPath(directory);
  try {
    return lstatIfPresent(path)?.isDirectory ? path : directory;
  } catch (error) {
    throw fileError(error, `Cannot inspect ${path}`);
  }
}

/** What is known of the broker that serves a home, if one does now. */
export async function ownBroker(home: string, clock: Clock = systemClock): Promise<DaemonInfo | undefined> {
  const directory = taskdHome(home);
  const place = lockDirectory(directory);
  try {
    return await readDaemonInfo(place, { clock });
  } catch (error) {
    // A first start may have put the directory in the place of the file meanwhile.
    const now = lockDirectory(directory);
    if (now === place) throw error;
    return await readDaemonInfo(now, { clock });
  }
}

/**
 * Takes the lock of a home, and makes it one of the newest version.
 *
 * @throws {TaskdError} `daemon_running`; `unsupported_layout` when a newer program has used the home; `corrupt` when that
 * cannot be known; `not_found` without a `~/.taskd`; `denied`, `no_space` or `unavailable`.
 */
export async function lockHome(home: string, clock: Clock): Promise<DaemonLock> {
  const directory = taskdHome(home);
  if (lockDirectory(directory) === directory) await leaveOldLock(directory, clock);
  const lock = await acquireDaemonLock(lockDirectory(directory), { clock });
  try {
    await requireVersion(directory);
    return lock;
  } catch (error) {
    lock.release();
    throw error;
  }
}

/** Replaces the lock file of version 0.1.0, which no broker may hold, by the directory. */
async function leaveOldLock(directory: string, clock: Clock): Promise<void> {
  const path = daemonLockPath(directory);
  for (let tries = 0; lockDirectory(directory) === directory; tries++) {
    try {
      using _old = await acquireDaemonLock(directory, { clock });
      Deno.removeSync(path);
      Deno.mkdirSync(path, { mode: 0o700 });
      await fsyncDirectory(directory);
      await writeFileAtomic(`${path}/note.txt`, new TextEncoder().encode(NOTE), 0o600);
    } catch (error) {
      // Another start was faster, with the directory or with a lock file between the two calls.
      const again = lockDirectory(directory) !== directory || fileErrorCode(error) === "already_exists";
      if (!again || tries >= MAX_RIVALS) throw fileError(error, `Cannot make ${path}`);
    }
  }
}

async function requireVersion(directory: string): Promise<void> {
  const path = `${daemonLockPath(directory)}/version.json`;
  const version = await readVersion(path) ?? await readVersion(path);
  if (version === undefined) {
    throw new TaskdError("corrupt", `Cannot start: ${path} is damaged`, {
      hint: "If no newer taskd has used this home, remove that file",
    });
  }
  if (version > NEWEST) {
    throw new TaskdError(
      "unsupported_layout",
      `Cannot start: ${directory} is of version ${version}, this program knows ${NEWEST}`,
      { hint: "Use the newer program that wrote it; docs/how-to/upgrade.md says how to go back" },
    );
  }
  if (version === NEWEST) return;
  await writeFileAtomic(path, new TextEncoder().encode(`${sealJson(JSON.stringify({ version: NEWEST }))}\n`), 0o600);
}

async function readVersion(path: string): Promise<number | undefined> {
  const text = await readPrivateFile(path, "own");
  if (text === undefined) return 1;
  const parsed = v.safeParse(VERSION_FILE, parseSealedJson(text));
  return parsed.success ? parsed.output.version : undefined;
}
