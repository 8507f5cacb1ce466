/**
 * The one error type of the product and the closed table of its codes.
 *
 * A message says what was attempted and what went wrong; `hint` says what to do
 * about it. The code is stable: scripts, the socket protocol and the command
 * line's exit status depend on it.
 */

/** Every error code, with what it means. Socket answers carry the key as `code`. */
export const ERROR_CODES = {
  usage: "the words or flags of a call are wrong",
  invalid_name: "a database, branch or checkpoint name breaks the naming rules",
  invalid_request: "a request has a missing, wrong or unknown field",
  invalid_config: "a configuration file or an environment variable breaks a rule",
  unknown_op: "the operation does not exist",
  not_found: "the database, branch, checkpoint or file does not exist",
  already_exists: "the database, branch, checkpoint or file exists already",
  conflict: "another process changed the branch at the same moment; try again",
  lease_held: "another session or command holds the branch",
  fenced: "the lease was lost; nothing more is written under it",
  branch_deleting: "the branch is being deleted",
  branch_reaping: "the branch is being reaped",
  protected: "the branch is protected",
  unconfirmed: "the operation takes much away and was not confirmed",
  dirty: "the checkout has local edits that the operation would lose",
  busy: "another process keeps the checkout locked",
  not_a_database: "the file is not an SQLite database",
  not_a_store: "the location is not a branch store",
  unsupported_layout: "the store or the home directory is of a later layout than this version knows",
  unsupported_format: "an object has a format version this version does not know",
  corrupt: "stored bytes do not match their checksums",
  altered: "what is kept of a task is not what the broker wrote",
  chain_gap: "an object that the branch needs is missing",
  daemon_running: "another daemon serves this store already",
  daemon_unreachable: "no daemon answers on the socket",
  no_session: "the branch has no open session",
  session_failed: "the session is in the error state",
  capture_failed: "the session can no longer prove that it has seen every write",
  no_space: "the disk is full",
  denied: "the file system or the store refuses access",
  unavailable: "the store does not answer",
  stalled: "no byte of a stream came for a minute",
  ambiguous: "the outcome of a write is not known",
  gc_failed: "not everything that branches need could be found; nothing was deleted",
  too_large: "a line, body or value is over its limit",
  interrupted: "the operation was interrupted",
  overloaded: "the daemon is at a limit of connections or work; try again later",
  stopping: "the daemon is shutting down",
  auth_failed: "credentials for a code host or a model are missing or were refused",
  push_rejected: "the code host refused the push",
  git_failed: "git failed for a reason without a code of its own",
  timed_out: "a program took longer than its deadline",
  sandbox_failed: "a sandbox or its runtime does not work",
  at_capacity: "as many tasks run as may; try again later",
  ceiling_reached: "a ceiling on spend or on task starts refuses",
  wrong_state: "the task or queue item is not in a state that allows this",
  stale_diff: "the diff named is not the one at the gate",
  expired: "the time to decide is over",
  not_acknowledged: "categories that need a second look are not acknowledged",
  broker_running: "another broker is running already",
  broker_unreachable: "no broker answers on the socket",
  internal: "a defect in this program",
} as const;

/** A stable error code. */
export type ErrorCode = keyof typeof ERROR_CODES;

/** What an error can carry beside code and message. */
export interface TaskdErrorOptions {
  /** What caused it. */
  cause?: unknown;
  /** What the person can do about it, one sentence. */
  hint?: string | undefined;
}

/**
 * An error that a person or a program is meant to handle.
 *
 * @example
 * ```ts
 * import { messageOf, TaskdError } from "@taskd/taskd";
 *
 * const error = new TaskdError("not_found", "There is no branch shop@try", { hint: "Fork it first" });
 * console.log(error.code, messageOf(error)); // not_found There is no branch shop@try
 * console.log(messageOf("a thrown string")); // a thrown string
 * ```
 */
export class TaskdError extends Error {
  /** Its name in stack traces. */
  override name = "TaskdError";
  /** The stable code. */
  readonly code: ErrorCode;
  /** What to do about it. */
  readonly hint: string | undefined;

  /** Makes an error of `code`; `message` says what was attempted and what went wrong. */
  constructor(code: ErrorCode, message: string, options: TaskdErrorOptions = {}) {
    super(message, options.cause === undefined ? {} : { cause: options.cause });
    this.code = code;
    this.hint = options.hint;
  }
}

/** What the machine lacks, or cannot do, whichever call meets it: errno(3), with the code and what to do about it. */
const MACHINE_ERRORS: Readonly<Record<string, { code: ErrorCode; hint: string }>> = {
  EIO: {
    code: "unavailable",
    hint: "The disk reports an error: see the kernel's log (dmesg), then taskd verify --all",
  },
  EMFILE: {
    code: "unavailable",
    hint: "The process has no descriptor left: raise ulimit -n, or LimitNOFILE of its unit",
  },
  ENFILE: { code: "unavailable", hint: "The machine has no descriptor left: raise fs.file-max, or end other programs" },
  ENOMEM: { code: "unavailable", hint: "The machine has no memory left: end other programs, then try again" },
  ENOSPC: { code: "no_space", hint: "Free space on the disk, then try again" },
  EDQUOT: {
    code: "no_space",
    hint: "The user's quota on the disk is used up: free space, or raise it, then try again",
  },
  EFBIG: {
    code: "no_space",
    hint: "EFBIG: the file is larger than its file system or ulimit -f allows; raise that, or LimitFSIZE of the unit",
  },
  EROFS: {
    code: "denied",
    hint: "The file system is mounted read-only: mount it writable; after an error see dmesg first",
  },
};

/** Deno gives these no `code`, only their number in the message: errno(3) of Linux, and EDQUOT of macOS. */
const NUMBERS: Readonly<Record<string, string>> = { 23: "ENFILE", 27: "EFBIG", 69: "EDQUOT", 122: "EDQUOT" };

/** What a thrown error says of the machine; undefined for every other. */
export function machineError(error: unknown): { code: ErrorCode; hint: string } | undefined {
  if (!(error instanceof Error)) return undefined;
  const errno = (error as Error & { code?: unknown }).code ??
    NUMBERS[/\(os error (\d+)\)/.exec(error.message)?.[1] ?? ""];
  return typeof errno === "string" && Object.hasOwn(MACHINE_ERRORS, errno) ? MACHINE_ERRORS[errno] : undefined;
}

/**
 * An error of the product as it is, and one that says what the machine lacks as the error of that; undefined for what is
 * a defect.
 */
export function asKnownError(error: unknown): TaskdError | undefined {
  if (error instanceof TaskdError) return error;
  const known = machineError(error);
  if (known === undefined) return undefined;
  return new TaskdError(known.code, `A call to the system failed: ${messageOf(error)}`, {
    cause: error,
    hint: known.hint,
  });
}

/**
 * Whether `error` is a {@linkcode TaskdError} of one of `codes`.
 *
 * @example
 * ```ts
 * import { hasCode, openStore, parseAddress } from "@taskd/taskd";
 *
 * const directory = await Deno.makeTempDir();
 * using store = await openStore(directory);
 * await store.status(parseAddress("none")).catch((error) => {
 *   if (!hasCode(error, "not_found")) throw error;
 *   console.log(error.message, error.hint);
 * });
 * await Deno.remove(directory, { recursive: true });
 * ```
 */
export function hasCode(error: unknown, ...codes: ErrorCode[]): error is TaskdError {
  return error instanceof TaskdError && codes.includes(error.code);
}

/** What `work` returns; undefined where it throws a {@linkcode TaskdError} of one of `codes`. */
export function passing<T>(codes: readonly ErrorCode[], work: () => T): T | undefined {
  try {
    return work();
  } catch (error) {
    if (hasCode(error, ...codes)) return undefined;
    throw error;
  }
}

/** The message of anything that was thrown; {@linkcode TaskdError} shows it. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** The stack of anything that was thrown, for a log: it begins with the message. */
export function stackOf(error: unknown): string {
  return error instanceof Error ? error.stack ?? error.message : String(error);
}

/** The message of anything that was thrown, with its hint in parentheses. */
export function messageWithHint(error: unknown): string {
  const hint = error instanceof TaskdError ? error.hint : undefined;
  return hint === undefined ? messageOf(error) : `${messageOf(error)} (${hint})`;
}

/** Throws `interrupted` once `signal` is aborted, whatever the reason it was given. */
export function throwIfInterrupted(signal: AbortSignal | undefined): void {
  if (!signal?.aborted) return;
  const { reason } = signal;
  throw hasCode(reason, "interrupted")
    ? reason
    : new TaskdError("interrupted", "The operation was interrupted", { cause: reason });
}
