/**
 * How long a client may take.
 *
 * @module
 */

/** Deadline of each write to a client, re-armed for every write; the contract's number. */
export const WRITE_DEADLINE_MS = 45_000;
