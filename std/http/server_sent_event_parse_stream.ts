// @ts-types="./server_sent_event_parse_stream.d.ts"
export { ServerSentEventParseStream } from "npm:deno-std@1.4.0/http/server_sent_event_parse_stream.js";
