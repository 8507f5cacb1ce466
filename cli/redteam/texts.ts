/**
 * What a folder holds, as text to be searched for a secret.
 *
 * @module
 */

/** Every file below `folder`, a character for each byte. */
export async function textsBelow(folder: string): Promise<string[]> {
  const texts: string[] = [];
  for await (const { name, isDirectory, isFile } of Deno.readDir(folder)) {
    const path = `${folder}/${name}`;
    if (isDirectory) texts.push(...await textsBelow(path));
    else if (isFile) texts.push(new TextDecoder("latin1").decode(await Deno.readFile(path)));
  }
  return texts;
}
