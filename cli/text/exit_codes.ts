/** Exit statuses of the program. Scripts depend on them. */

export const EXIT_OK = 0;

/** The command failed, or verify found damage: distinct from a call that was wrong. */
export const EXIT_FAILURE = 1;

/** The words or flags are wrong; nothing was touched. 2 as in bash, Go's flag package and clap. */
export const EXIT_USAGE = 2;

/** What was approved could not be pushed; it is kept, and waits for another round. */
export const EXIT_PUSH_FAILED = 3;

/** It is pushed, and its data waits. */
export const EXIT_DATA_WAITS = 4;

/** Ctrl-C: 128 + SIGINT, what a shell reports, so that a loop around the program stops too. */
export const EXIT_INTERRUPTED = 130;

/** SIGTERM ended the work: 128 + SIGTERM, what a supervisor expects. */
export const EXIT_TERMINATED = 143;
