/** The command `taskd copy-store`. */

import type { Backend } from "../../lib/backend/backend.ts";
import { TaskdError } from "../../lib/errors.ts";
import { copyStore, type CopyStoreResult } from "../../lib/store/copy_store.ts";
import { readDaemonInfo } from "../../lib/store/daemon_lock.ts";
import { MANIFEST_KEY } from "../../lib/store/keys.ts";
import { openBackend } from "../../lib/store/open.ts";
import { formatBytes } from "../../lib/text/bytes.ts";
import { plural } from "../../lib/text/plural.ts";
import type { Args } from "../plan/args.ts";
import { EXIT_FAILURE, EXIT_OK } from "../text/exit_codes.ts";
import type { Io } from "../text/io.ts";
import { findingLines } from "./_result_text.ts";

type CopyStoreReport = { source: string; target: string } & CopyStoreResult;

export async function run(args: Args, io: Io): Promise<CopyStoreReport> {
  const [source, target] = [args.positional("source"), args.positional("target")];
  if (source === target) {
    throw new TaskdError("usage", `Cannot copy ${source} to itself`, { hint: "Name another place" });
  }
  if (source.startsWith("/")) await checkSource(source, io);
  const { s3 } = args.plan;
  const open = (location: string, read_only: boolean): Promise<Backend> =>
    openBackend(location, { read_only, ...(s3 === undefined ? {} : { s3: s3.options }) });
  const result = await copyStore(await open(source, true), await open(target, false), {
    onProgress: io.progress("copy-store"),
    signal: io.signal,
    allow_damaged: args.on("allow-damaged"),
  });
  return { source, target, ...result };
}

/** Opening a directory would make it a place for a store; what is only read from is left as it is. */
async function checkSource(directory: string, io: Io): Promise<void> {
  try {
    Deno.statSync(`${directory}/${MANIFEST_KEY}`);
  } catch (cause) {
    if (!(cause instanceof Deno.errors.NotFound || cause instanceof Deno.errors.NotADirectory)) throw cause;
    throw new TaskdError("not_a_store", `Cannot copy ${directory}: there is no store`, { cause });
  }
  if (await readDaemonInfo(directory) !== undefined) {
    io.note("A daemon serves the source: what it writes from now on is not copied");
  }
}

export function exitCode({ findings }: CopyStoreReport): number {
  return findings.length === 0 ? EXIT_OK : EXIT_FAILURE;
}

export function render(result: CopyStoreReport): string {
  const skipped = result.skipped === 0 ? "" : `; ${result.skipped} of them were there already`;
  const what = `${plural(result.branches, "branch")} and ${plural(result.objects, "object")}`;
  const copied = `Copied ${what} (${formatBytes(result.copied_bytes)}${skipped}) to ${result.target}`;
  if (result.findings.length === 0) return copied;
  return [`${copied}: NOT PROVED, it is damaged`, ...result.findings.flatMap((each) => findingLines(each))].join("\n");
}
