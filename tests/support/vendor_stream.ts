/**
 * A model's answer as the API of vendor_a streams it.
 */

/** An answer with one block, in one piece. */
export function streamed(
  block: Record<string, unknown>,
  delta: Record<string, unknown>,
  stop_reason: string,
): Response {
  const usage = { input_tokens: 1_000, output_tokens: 50 };
  const message = { id: "msg_1", type: "message", role: "assistant", model: "claude-sonnet-4-5", content: [] };
  const events = [
    { type: "message_start", message: { ...message, stop_reason: null, usage: { ...usage, output_tokens: 1 } } },
    { type: "content_block_start", index: 0, content_block: block },
    { type: "content_block_delta", index: 0, delta },
    { type: "content_block_stop", index: 0 },
    { type: "message_delta", delta: { stop_reason }, usage },
    { type: "message_stop" },
  ];
  const text = events.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`).join("");
  return new Response(text, { headers: { "content-type": "text/event-stream" } });
}
