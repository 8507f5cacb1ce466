/**
 * Exit statuses of the program. Scripts depend on them.
 */

/** The command succeeded. */
export const EXIT_OK = 0;

/** The command failed, or verify found damage: distinct from a call that was wrong. */
export const EXIT_FAILURE = 1;

/** The words or flags are wrong; nothing was touched. 2 as in bash, Go's flag package and clap. */
export const EXIT_USAGE = 2;

/** Ctrl-C: 128 + SIGINT, what a shell reports, so that a loop around the program stops too. */
export const EXIT_INTERRUPTED = 130;

/** SIGTERM ended the work: 128 + SIGTERM, what a supervisor expects. */
export const EXIT_TERMINATED = 143;
