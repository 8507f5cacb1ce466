/**
 * What a folder holds, as text to be searched for a secret.
 */

import { walk } from "@std/fs/walk";

/** Every file below `folder`, a character for each byte. */
export async function textsBelow(folder: string): Promise<string[]> {
  const texts: string[] = [];
  for await (const { path, isFile } of walk(folder, { includeDirs: false })) {
    if (isFile) texts.push(new TextDecoder("latin1").decode(await Deno.readFile(path)));
  }
  return texts;
}
