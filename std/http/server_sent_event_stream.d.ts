export interface ServerSentEventMessage {
  comment?: string;
  event?: string;
  data?: string;
  id?: string | number;
  retry?: number;
}
export declare class ServerSentEventStream extends TransformStream<ServerSentEventMessage, Uint8Array> {
  constructor();
}
