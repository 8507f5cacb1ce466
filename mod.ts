/**
 * taskd as a library: branches of SQLite databases that are forked in milliseconds,
 * checkpointed, rolled back and promoted.
 *
 * @example Fork a database, write to the fork, and compare
 * ```ts
 * import { openStore, parseAddress } from "@taskd/taskd";
 * import { DatabaseSync } from "node:sqlite";
 *
 * const directory = await Deno.makeTempDir();
 * const store = await openStore(directory);
 * await store.create("shop");
 * await store.fork(parseAddress("shop"), "try");
 *
 * const { path } = await store.checkout(parseAddress("shop@try"));
 * const db = new DatabaseSync(path);
 * db.exec("CREATE TABLE item (name TEXT); INSERT INTO item VALUES ('tea')");
 * db.close();
 * await store.checkpoint(parseAddress("shop@try"), "v1");
 *
 * const [shop, other] = [parseAddress("shop@main"), parseAddress("shop@try")];
 * const { tables } = await store.diff(shop, other);
 * for (const { table } of tables) console.log((await store.diffRows(shop, other, table)).rows);
 * console.log(tables[0]?.change, tables[0]?.table); // added item
 *
 * await Deno.remove(directory, { recursive: true });
 * ```
 *
 * @module
 */

export type {
  Backend,
  BackendErrorCode,
  Body,
  CloneSupport,
  ObjectBody,
  ObjectInfo,
  ObjectStream,
  ReplaceOptions,
} from "./lib/backend/backend.ts";
export { type Client, connect, type ConnectOptions, subscribe } from "./lib/client/client.ts";
export type { S3Credentials } from "./lib/backend/s3.ts";
export { type Clock, type RandomBytes, systemClock } from "./lib/clock.ts";
export { ERROR_CODES, type ErrorCode, hasCode, messageOf, TaskdError, type TaskdErrorOptions } from "./lib/errors.ts";
export type {
  AnyDaemonEvent,
  AnyEventType,
  AuditAnswer,
  BranchArgs,
  CallableOp,
  CloseAnswer,
  ComparedArgs,
  DaemonEvent,
  EventDetails,
  EventOf,
  EventType,
  MergeArgs,
  MoreEventDetails,
  OpAnswer,
  OpArgs,
  OpenAnswer,
  OpName,
  OpTypes,
  RepointAnswer,
  RepointArgs,
  SessionInfo,
  StatusAnswer,
  VerifyAnswer,
} from "./lib/protocol/messages.ts";
export { copyStore, type CopyStoreOptions, type CopyStoreResult } from "./lib/store/copy_store.ts";
export {
  type Address,
  type BranchName,
  DEFAULT_BRANCH,
  formatAddress,
  formatTxid,
  parseAddress,
  parseName,
  parseTxid,
  type Txid,
} from "./lib/store/names.ts";
export {
  mergeBranches,
  type MergeBranchesOptions,
  type MergeBranchesResult,
  revertMerge,
} from "./lib/capture/merge.ts";
export type { ConflictKind, MergeConflict, MergeSide, Resolution } from "./lib/merge/conflicts.ts";
export type { MergedTable } from "./lib/merge/table_merge.ts";
export type { MergeReport } from "./lib/merge/three_way.ts";
export type { AuditOptions } from "./lib/store/audit.ts";
export type { RepairOptions } from "./lib/store/repair.ts";
export {
  type AuditResult,
  BRANCH_STATES,
  type BranchInfo,
  type BranchState,
  type BranchStatus,
  type CheckoutOptions,
  type CheckoutResult,
  type CheckpointInfo,
  type CheckpointResult,
  type CompactResult,
  type ConditionInfo,
  type CopyPath,
  type CreateResult,
  type DatabaseInfo,
  type DestroyOptions,
  type DestroyResult,
  type DiffOptions,
  type DiffResult,
  type DiffRowsOptions,
  type Finding,
  FINDING_KINDS,
  type FlushResult,
  type FoldResult,
  type ForkOptions,
  type ForkResult,
  type HistoryCost,
  type LeftOut,
  type Lifetime,
  type LogResult,
  type LongOptions,
  type MergeInfo,
  type ObjectKind,
  type OnProgress,
  type PointInfo,
  type PromoteOptions,
  type Recovery,
  type RepairedBranch,
  type RepairResult,
  type RepointOptions,
  type RepointResult,
  type Restored,
  type SafetyOptions,
  type ScrubResult,
  type SessionStatus,
  type StorageMode,
  type TouchOptions,
  type TouchResult,
  type UndoableEntry,
  type UndoOptions,
  type UndoResult,
  type VerifyResult,
  type WaitOptions,
} from "./lib/store/results.ts";
export type {
  ChangeKind,
  ColumnDiff,
  DatabaseDiff,
  DefinitionDiff,
  JsonValue,
  OtherPages,
  RowDiff,
  RowPage,
  SettingDiff,
  SideProblem,
  TableDiff,
} from "./lib/sqlite/diff_result.ts";
export {
  openBackend,
  type OpenBackendOptions,
  openStore,
  type OpenStoreOptions,
  type S3StoreOptions,
  storeDirectory,
} from "./lib/store/open.ts";
export { DEFAULT_LEVELS, type KeepLevel, parseLevels } from "./lib/store/retention.ts";
export { defaultWorkspace, isS3Location } from "./lib/store/s3_location.ts";
export {
  type EvictedEntry,
  type ExportResult,
  type FoldOptions,
  type GcOptions,
  type GcResult,
  type InspectOptions,
  type LeaseInfo,
  type LogOptions,
  type ReapedBranch,
  type ReapResult,
  type RoCacheResult,
  Store,
  type StoreOptions,
} from "./lib/store/store.ts";
