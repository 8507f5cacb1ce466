/**
 * What becomes of a checkout that is not known to be its branch's head, before SQLite opens it. After a power failure,
 * or when files were put back, it may be behind what is stored: then it never takes the head's place.
 *
 * Evidence first: the log that holds the place where the head ends continues the head, whatever the main file has lost;
 * the log that has lost that place is behind it; content that the store has is nothing new. What remains is kept twice,
 * as the branch and as a branch beside it, or refused as `dirty`. Nothing that the store does not have is dropped.
 */

import { join } from "node:path/posix";
import { hasCode, TaskdError } from "../../errors.ts";
import { discard } from "../../fs.ts";
import { ImageFile, stampFile } from "../../sqlite/checkout_file.ts";
import { integrityCheck } from "../../sqlite/integrity.ts";
import { compareLog, type LogReport } from "../../sqlite/log_place.ts";
import { pageRuns } from "../../sqlite/page_runs.ts";
import { rawImage } from "../../sqlite/raw_image.ts";
import type { DatabaseImage, WalMark } from "../../sqlite/wal_tail.ts";
import { surveyPages, withRawFiles } from "../checkout_survey.ts";
import type { CheckoutView } from "../checkouts.ts";
import { type Point, type StoreContext, targetOf } from "../context.ts";
import { writePages } from "../materialize.ts";
import { PageChecksums } from "../page_checksums.ts";
import type { LongOptions, Recovery } from "../results.ts";
import { keepCopy } from "../set_aside.ts";
import { listVersion } from "../tombstones.ts";
import type { RecordedHead, SessionRecord } from "../workspace.ts";
import { keepContent, type KeepOptions } from "./keep.ts";

/** SQLite's check of more takes longer than a lease lasts; its content is taken up unchecked, beside the head. */
const MAX_CHECKED_BYTES = 1 << 30;

/** A checkout as it was inspected, just now. */
export interface FoundCheckout {
  view: CheckoutView;
  /** {@linkcode Checkouts.fileStamp} from before that: edits made since are left alone. */
  fileStamp: string;
}

/**
 * Brings a checkout that is not known to be clean, of a branch whose lease the caller holds, into a state in which what
 * it holds continues the head, or is the head.
 *
 * @returns Undefined when nothing was done; otherwise the checkout has to be inspected again.
 * @throws {TaskdError} `dirty` when it holds edits of another or an unknown history.
 */
export async function recoverCheckout(
  context: StoreContext,
  point: Point,
  found: FoundCheckout,
  options: LongOptions = {},
): Promise<{ recovery?: Recovery } | undefined> {
  const { view, fileStamp } = found;
  const { path } = view;
  const case_ = { context, point, path, ...found, options };
  const { place, page_size, mark } = await withRawFiles(path, (file) => compareLog(file, view.marks));
  if (place === "reached") return { recovery: await continueHead(case_, { page_size: page_size!, mark: mark! }) };
  // Nothing says what it was, or something else than SQLite has written to it: a person decides.
  if (view.identity === "unknown") return await compareContent(case_);
  if (place === "behind") return { recovery: await setBack(case_) };
  if (view.interrupted && !await isReadable(path)) return { recovery: await setBack(case_) };
  if (await endsWhereStored(case_)) {
    await context.checkouts.restore(targetOf(point), { ...options, fileStamp });
    return {};
  }
  if (view.identity === "current" && !wasCaptured(context, path)) return undefined;
  return await compareContent(case_);
}

interface Case extends FoundCheckout {
  context: StoreContext;
  point: Point;
  path: string;
  options: LongOptions;
}

/** Whether a session was cut off, and not an operation at rest. */
function wasCaptured({ workspace }: StoreContext, path: string): boolean {
  const record = workspace.sessionRecord(path);
  return record !== undefined && (record.session !== undefined || record.heads.some(({ mark }) => mark !== null));
}

/** The log holds the head: what follows in it are edits, and pages that the main file has lost are the head's. */
async function continueHead(case_: Case, { page_size, mark }: { page_size: number; mark: WalMark }): Promise<Recovery> {
  const { context, point, path, view, fileStamp, options } = case_;
  const target = targetOf(point);
  const sound = await surveyed(case_, { page_size, mark });
  if (sound) {
    context.checkouts.claim(target, sound.place === "reached" ? mark : undefined);
    return { outcome: "resumed" };
  }
  if (view.identity === "unknown") throw foreignEdits(view);
  await requireFree(case_);
  const set_aside = await keepCopy(context.workspace, path, context.clock.now());
  const { after } = await withRawFiles(path, (file) => compareLog(file, [mark]));
  await context.checkouts.restore(target, { ...options, fileStamp, log: mark });
  context.log(
    `checkout of ${name(point)} made anew from the head, under its log; the files it had are in ${set_aside}`,
  );
  return { outcome: after ? "rebuilt" : "restored", set_aside };
}

/** Whether main file and log have all pages of the head that the log ends with at `mark`. */
async function surveyed(
  { context, point, path }: Pick<Case, "context" | "point" | "path">,
  { page_size, mark }: { page_size: number; mark: WalMark },
): Promise<LogReport | undefined> {
  const checksums = await PageChecksums.load(context.backend, point.chain, point.head.digest);
  if (!checksums || !await isReadable(path)) return undefined;
  return await withRawFiles(path, (file) => surveyPages(file, { marks: [mark], page_size, checksums }));
}

/**
 * What proves that a checkout holds the branch's head, or continues it, whatever the records beside it say; `record` then
 * writes that down. Undefined where nothing does. The caller of `record` holds the branch's lease.
 */
export async function proveCheckout(
  context: StoreContext,
  point: Point,
): Promise<{ by: string; record: () => Promise<unknown> } | undefined> {
  const { checkouts } = context;
  const target = targetOf(point);
  const view = checkouts.inspect(target);
  if (!view) return undefined;
  const { path, marks } = view;
  const { place, page_size, mark } = await withRawFiles(path, (file) => compareLog(file, marks));
  if (place === "reached" && await surveyed({ context, point, path }, { page_size: page_size!, mark: mark! })) {
    return { by: "the checkout's log", record: () => Promise.resolve(checkouts.claim(target, mark)) };
  }
  if (!await checkouts.hasContentOf(view, target)) return undefined;
  return { by: "the checkout, which holds the head", record: () => checkouts.stampIfSame(path, target) };
}

/** The checkout is behind the head, or cannot be read: the head is restored, and content that is new is kept. */
async function setBack(case_: Case): Promise<Recovery> {
  const { context, point, path, fileStamp, options } = case_;
  await requireFree(case_);
  let kept: Omit<Recovery, "outcome">;
  try {
    kept = await keepFound(case_);
  } catch (error) {
    if (!hasCode(error, "not_a_database", "corrupt")) throw error;
    kept = { set_aside: await keepCopy(context.workspace, path, context.clock.now()) };
  }
  await context.checkouts.restore(targetOf(point), { ...options, fileStamp });
  const outcome = kept.safety_branch === undefined ? "restored" : "kept_both";
  context.log(`checkout of ${name(point)} was behind the head, which is restored: ${JSON.stringify(kept)}`);
  return { outcome, ...kept };
}

/** Throws `busy` while an application has the file open that is to be replaced: before anything is kept. */
async function requireFree({ context, point: { address: { db, branch } }, path, options }: Case): Promise<void> {
  (await context.checkouts.take(db, branch, `Cannot replace ${path}`, options))?.[Symbol.dispose]();
}

/** Keeps what the files hold, unless the store has it, as the branch `<branch>-found`. */
async function keepFound(case_: Case): Promise<Omit<Recovery, "outcome">> {
  const { context, path } = case_;
  const copy = context.workspace.beside(join(context.workspace.root, "tmp", "found"));
  try {
    const stored = await withRawFiles(path, async (file) => {
      const image = rawImage(file);
      if (await whereStored(case_, image)) return true;
      writePages(copy, image, pageRuns(image));
      return false;
    });
    if (stored) return {};
    if (integrityCheck(copy).length > 0) {
      return { set_aside: await keepCopy(context.workspace, path, context.clock.now()) };
    }
    using edits = ImageFile.open(copy);
    return { safety_branch: await keep(case_, { edits, suffix: "found" }) };
  } finally {
    discard(copy);
  }
}

/** The log proves nothing: the content is compared with what is stored. What is new is taken up, and the head kept beside it. */
async function compareContent(case_: Case): Promise<{ recovery?: Recovery }> {
  const { context, point, path, view, options } = case_;
  const target = targetOf(point);
  // First: SQLite would fold the log into the main file, and set the time that this goes by.
  if (isOlder(case_)) return { recovery: await setBack(case_) };
  const stored = await withRawFiles(path, (file) => whereStored(case_, rawImage(file))).catch(() => undefined);
  // Else the head is put back, over files that are as they were found: until this is known nothing may fold the log.
  const sound = !await mayHaveLost(case_) && (stored !== undefined || await isIntact(case_));
  if (sound && stored !== "before" && await context.checkouts.stampIfSame(path, target)) return {};
  if (stored !== undefined) {
    await context.checkouts.restore(target, { ...options, fileStamp: case_.fileStamp });
    return { recovery: { outcome: "restored" } };
  }
  if (view.identity !== "current") throw foreignEdits(view);
  if (!sound) return { recovery: await setBack(case_) };
  const safety_branch = await keep(case_, {});
  context.checkouts.claim(target, undefined);
  context.log(`checkout of ${name(point)} is taken up, and the head kept as ${safety_branch}: its log proves nothing`);
  return { recovery: { outcome: "kept_both", safety_branch } };
}

export function foreignEdits({ path, identity }: Pick<CheckoutView, "path" | "identity">): TaskdError {
  const whose = identity === "unknown"
    ? `and what it continues is not known, because ${path}.sum or ${path}.session is missing or damaged`
    : "that do not belong to the branch's present history";
  return new TaskdError("dirty", `Cannot use ${path}: it holds edits ${whose}`, {
    hint: "Save them with sqlite3 .backup, then check the branch out with --force",
  });
}

/** Whether the log ends where the record beside the checkout says that a stored head, of whatever history, ends. */
async function endsWhereStored({ context, path, view }: Case): Promise<boolean> {
  if (view.identity === "current") return false;
  const mark = storedHead(context.workspace.sessionRecord(path))?.mark;
  if (!mark) return false;
  const { place, after } = await withRawFiles(path, (file) => compareLog(file, [mark]));
  return place === "reached" && after === undefined;
}

/** The head that a record begins with; one after it may never have become the branch's. */
function storedHead(record: SessionRecord | undefined): RecordedHead | undefined {
  const head = record?.heads[0];
  return head && { lineage: record!.lineage, ...head };
}

/** The same, where it is one of the branch's own, at its head or before. */
function headBefore({ context, point: { ref }, path }: Case): RecordedHead | undefined {
  const head = storedHead(context.workspace.sessionRecord(path));
  return head?.lineage === ref.lineage && head.txid <= ref.txid ? head : undefined;
}

/** Whether the image is the branch at its head, or at an end of its chain, a checkpoint, or a head recorded beside it. */
async function whereStored(case_: Case, image: DatabaseImage): Promise<"head" | "before" | undefined> {
  const { context: { backend, chains }, point } = case_;
  const is = async (objects: Point["chain"]["objects"], digest?: string) => {
    const checksums = await PageChecksums.read(backend, objects, digest).catch(() => undefined);
    return checksums !== undefined && await checksums.firstDifference(image) === undefined;
  };
  const { objects } = point.chain;
  if (await is(objects)) return "head";
  for (let count = objects.length - 1; count > 0; count--) if (await is(objects.slice(0, count))) return "before";
  const { ref } = point;
  const begun = headBefore(case_);
  for (const { lineage = ref.lineage, txid, digest } of [...(begun ? [begun] : []), ...ref.checkpoints]) {
    const chain = await chains.resolve(lineage, txid).catch(() => undefined);
    if (chain && await is(chain.objects, digest)) return "before";
  }
  return undefined;
}

/**
 * Whether the main file was not written to since part of the head was in the log alone, or since it had the head. Asked of
 * the session that stored the head: at the opening of a later one the file's time may have been set.
 */
function isOlder({ context, point: { ref }, path }: Case): boolean {
  const { digest, holder, main, whole } = ref.captured ?? {};
  const found = stampFile(path);
  if (
    context.workspace.sessionRecord(path)?.session !== holder || digest !== ref.digest || main === undefined ||
    found === undefined
  ) return false;
  const later_ns = BigInt(found.mtime_ns) - BigInt(main.mtime_ns);
  return later_ns < 0n || (later_ns === 0n && !whole);
}

/**
 * Whether the power may have failed since the session that was cut off began: what an application wrote without forcing it
 * to disk may be there in part then, whatever the times of the files say.
 */
async function mayHaveLost({ context, path }: Case): Promise<boolean> {
  const boot = await context.boot();
  return boot === undefined || context.workspace.sessionRecord(path)?.boot !== boot;
}

/**
 * Whether SQLite finds the content sound; asked of databases that can be copied and checked within a lease. The files stay
 * as they are, unless an application has them open: then nothing can be put in their place either.
 */
async function isIntact({ context, point: { address: { db, branch } }, path, options }: Case): Promise<boolean> {
  const { checkouts, workspace } = context;
  const copy = workspace.beside(join(workspace.root, "tmp", "found"));
  try {
    using taken = await checkouts.take(db, branch, `Cannot read ${path}`, options).catch((error) => {
      if (!hasCode(error, "busy")) throw error;
      return undefined;
    });
    using quiet = taken ? undefined : await checkouts.open(path);
    const image = taken ? taken.database?.image() : quiet!.image;
    if (image === undefined) return false;
    if (image.page_count * image.page_size > MAX_CHECKED_BYTES) return true;
    writePages(copy, image, pageRuns(image));
    return integrityCheck(copy).length === 0;
  } catch (error) {
    if (hasCode(error, "corrupt", "not_a_database", "capture_failed")) return false;
    throw error;
  } finally {
    discard(copy);
  }
}

async function isReadable(path: string): Promise<boolean> {
  try {
    await withRawFiles(path, rawImage);
    return true;
  } catch (error) {
    if (hasCode(error, "not_a_database")) return false;
    throw error;
  }
}

async function keep({ context, point }: Case, what: Pick<KeepOptions, "edits" | "suffix">): Promise<string> {
  const since = await listVersion(context.backend);
  return (await keepContent(context, point, { op: "recovery", since, once: true, ...what })).branch;
}

function name({ address: { db, branch } }: Point): string {
  return `${db}@${branch}`;
}
