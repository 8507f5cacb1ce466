import type { ServerSentEventMessage } from "./server_sent_event_stream.d.ts";
export type ServerSentEventParsedMessage = Omit<ServerSentEventMessage, "id"> & { id?: string };
export declare class ServerSentEventParseStream extends TransformStream<Uint8Array, ServerSentEventParsedMessage> {
  constructor(options?: { ignoreComments?: boolean });
}
