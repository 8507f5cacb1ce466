/** Inputs without white space in them, written as running text. */

export function words(text: string): readonly string[] {
  return text.trim().split(/\s+/);
}
