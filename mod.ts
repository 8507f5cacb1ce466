/**
 * taskd as a library: branches of SQLite databases that are forked in milliseconds,
 * checkpointed, rolled back and promoted.
 *
 * @example Read an address
 * ```ts
 * import { formatAddress, parseAddress } from "@taskd/taskd";
 *
 * const address = parseAddress("shop");
 * console.log(formatAddress(address)); // shop@main
 * ```
 *
 * @module
 */

export { ERROR_CODES, type ErrorCode, hasCode, TaskdError, type TaskdErrorOptions } from "./lib/errors.ts";
export {
  type Address,
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
  type ForkResult,
  type JsonValue,
  type LongOptions,
  type ObjectKind,
  type OnProgress,
  type RepointResult,
  type RowDiff,
  type SessionStatus,
  type StorageMode,
  type TableDiff,
  type VerifyResult,
} from "./lib/store/results.ts";
