/**
 * Words of a shell's command line, for commands that people copy.
 */

/** `word` as one word of a POSIX shell, quoted where the shell would read it otherwise. */
export function shellWord(word: string): string {
  const isPlain = word !== "" && /^[A-Za-z0-9_.:=@%+,/-]*$/.test(word);
  return isPlain ? word : "'" + word.replaceAll("'", "'\\''") + "'";
}
