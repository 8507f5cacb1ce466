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
 * const { tables } = await store.diff(parseAddress("shop@main"), parseAddress("shop@try"));
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
  BranchArgs,
  CallableOp,
  CloseAnswer,
  DaemonEvent,
  EventDetails,
  EventType,
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
  BRANCH_STATES,
  type BranchInfo,
  type BranchState,
  type BranchStatus,
  type CheckoutResult,
  type CheckpointInfo,
  type CheckpointResult,
  type CompactResult,
  type CopyPath,
  type CreateResult,
  type DatabaseInfo,
  type DiffResult,
  type FlushResult,
  type ForkOptions,
  type ForkResult,
  type Lifetime,
  type LongOptions,
  type ObjectKind,
  type OnProgress,
  type RepointOptions,
  type RepointResult,
  type SessionStatus,
  type StorageMode,
  type TouchOptions,
  type TouchResult,
  type VerifyResult,
} from "./lib/store/results.ts";
export type { JsonValue, RowDiff, TableDiff } from "./lib/sqlite/diff_result.ts";
export {
  openBackend,
  type OpenBackendOptions,
  openStore,
  type OpenStoreOptions,
  type S3StoreOptions,
  storeDirectory,
} from "./lib/store/open.ts";
export { defaultWorkspace, isS3Location } from "./lib/store/s3_location.ts";
export {
  type EvictedEntry,
  type ExportResult,
  type GcOptions,
  type GcResult,
  type InspectOptions,
  type LeaseInfo,
  type ReapedBranch,
  type ReapResult,
  type RoCacheResult,
  Store,
  type StoreOptions,
} from "./lib/store/store.ts";
