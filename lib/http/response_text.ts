/**
 * The text of another server's answer, within a bound.
 */

/** The body as text; undefined when it has more than `max_bytes`: the rest is then not read. */
export async function readText(response: Response, max_bytes: number): Promise<string | undefined> {
  const decoder = new TextDecoder();
  let text = "";
  let size = 0;
  for await (const chunk of response.body ?? []) {
    // Leaving the loop cancels the body.
    if ((size += chunk.length) > max_bytes) return undefined;
    text += decoder.decode(chunk, { stream: true });
  }
  return text + decoder.decode();
}
