/**
 * Promises about files: who of the machine may read or write what a broker keeps, the one that is installed included.
 */

import { dirname } from "@std/path/dirname";
import { lstatIfPresent } from "../../lib/fs.ts";
import { requireTrusted } from "../../lib/trusted_path.ts";
import { ledgerPath } from "../../broker/admission/ledger_file.ts";
import { ownFiles } from "../../broker/settings/own_places.ts";
import { faultOf } from "../../broker/settings/value_schemas.ts";
import type { InstalledFiles, RedteamContext } from "./context.ts";
import type { SecurityPromise, Trial } from "./security_promise.ts";

/** Most entries of one directory that are checked: an old broker has more, and they are all made alike. */
const MAX_ENTRIES = 2_000;

/** Holds a path to the mode that it may have at most; one that is not there is no attempt. */
function hold(trial: Trial, path: string, mode: number): boolean {
  const status = lstatIfPresent(path);
  if (status === undefined) return false;
  const is = (status.mode ?? 0) & 0o777;
  trial.attempt(path, (is & ~mode) === 0 && !status.isSymlink, `mode ${is.toString(8)}, ${mode.toString(8)} at most`);
  const uid = Deno.uid();
  if (status.uid !== null && uid !== null) {
    trial.attempt(`the owner of ${path}`, status.uid === uid, `it belongs to user ${status.uid}`);
  }
  return true;
}

async function holdAll(trial: Trial, directory: string): Promise<void> {
  if (!hold(trial, directory, 0o700)) return;
  let count = 0;
  for await (const { name, isDirectory } of Deno.readDir(directory)) {
    if (++count > MAX_ENTRIES) break;
    hold(trial, `${directory}/${name}`, isDirectory ? 0o700 : 0o600);
  }
}

/** Holds all that a broker keeps to its modes. */
export async function holdBroker(trial: Trial, place: InstalledFiles): Promise<void> {
  const { directory, audit_root, squid_run_dir, live_socket } = place;
  trial.control(directory, hold(trial, directory, 0o700), "it is not there");
  for (const { path, rule } of ownFiles({ home: dirname(directory) })) {
    const fault = faultOf(() => requireTrusted(path, rule));
    trial.attempt(path, fault === undefined, fault?.message);
  }
  await holdAll(trial, audit_root);
  const ledger = ledgerPath(audit_root);
  hold(trial, dirname(ledger), 0o700);
  hold(trial, ledger, 0o600);
  await holdAll(trial, squid_run_dir);
  if (live_socket === undefined) return;
  hold(trial, live_socket, 0o600);
  hold(trial, dirname(live_socket), 0o700);
}

/** Keys in a file that others can read, or that leads elsewhere. */
async function readsKeys(context: RedteamContext, plant: (path: string) => void): Promise<boolean> {
  const home = await context.folder();
  await Deno.mkdir(`${home}/.taskd`, { mode: 0o700 });
  plant(`${home}/.taskd/api-keys.env`);
  try {
    return (await context.surfaces.readKeys(home)).size > 0;
  } catch {
    return false;
  }
}

const KEY_LINE = "VENDORA_API_KEY=sk-redteam-made-up\n";

export const FILE_PROMISES: readonly SecurityPromise[] = [
  {
    id: "files.keys",
    promise: "A file of keys that others can read is refused, and is not read",
    attacks: "Modes 0644, 0640, 0620 and 0604, a directory in its place",
    async run(trial, context) {
      for (const mode of [0o644, 0o640, 0o620, 0o604]) {
        const plant = (path: string) => {
          Deno.writeTextFileSync(path, KEY_LINE);
          Deno.chmodSync(path, mode);
        };
        trial.attempt(`mode ${mode.toString(8)}`, !await readsKeys(context, plant), "it was read");
      }
      trial.attempt("a directory", !await readsKeys(context, (path) => Deno.mkdirSync(path)), "it was read");
      const own = await readsKeys(context, (path) => Deno.writeTextFileSync(path, KEY_LINE, { mode: 0o600 }));
      trial.control("a file of mode 600", own);
    },
  },
  {
    id: "files.installed",
    promise: "The installed broker's own files are for its user alone",
    attacks: "The modes and owners of ~/.taskd, keys, records, the ledger, logs, and the socket of a running broker",
    async run(trial, { options }) {
      if (options.installed === undefined) return trial.skip("nothing is set up here: there is no ~/.taskd");
      await holdBroker(trial, options.installed);
    },
  },
];
