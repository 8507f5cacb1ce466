/** The daemon's log: one entry for each thing that happened, for a person and for grep. */

/** Takes one entry; never throws. */
export type DaemonLog = (entry: string) => void;

/** Longest entry in characters: a defect's stack, not a whole answer that went wrong. */
const MAX_ENTRY_LENGTH = 4000;

/** Gives `log` each entry as one line of bounded length with the program's name; ignores what `log` throws. */
export function oneLineLog(log: DaemonLog): DaemonLog {
  return (entry) => {
    const text = entry.length > MAX_ENTRY_LENGTH ? `${entry.slice(0, MAX_ENTRY_LENGTH)}...` : entry;
    try {
      log(`taskd: ${text.replaceAll(/\s*\n\s*/g, " | ")}`);
    } catch {
      // Its reader is gone, or its disk is full: sessions must not end for that.
    }
  };
}
