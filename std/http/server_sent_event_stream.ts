// @ts-types="./server_sent_event_stream.d.ts"
export { ServerSentEventStream } from "npm:deno-std@1.4.0/http/server_sent_event_stream.js";
