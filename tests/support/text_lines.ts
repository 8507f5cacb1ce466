/** The lines of a stream as they come; of a last one without an end nothing. */
export async function* textLines(
  stream: ReadableStream<Uint8Array<ArrayBuffer>>,
): AsyncGenerator<string, void, void> {
  let rest = "";
  for await (const text of stream.pipeThrough(new TextDecoderStream())) {
    const lines = (rest + text).split("\n");
    rest = lines.pop()!;
    yield* lines;
  }
}
