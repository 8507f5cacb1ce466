/** A record or a line without its checksum, as version 0.1.0 wrote it: for tests that change one. */
export function unsealed(text: string): string {
  return text.replaceAll(/,"sum":"[0-9a-f]{8}"\}$/gm, "}");
}
