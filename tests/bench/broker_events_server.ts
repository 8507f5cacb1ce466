/**
 * The broker's listeners over one task, for the benchmark of its events: `POST /<count>` adds as many rows to its trace.
 */

import { join } from "@std/path/join";
import { serveHttp } from "../../broker/http/serve.ts";
import { TaskStore } from "../../broker/task/task_store.ts";
import { SmallEngine } from "../broker/http/small_engine.ts";
import { type Helper, report } from "./helper.ts";

/** What it prints. */
export interface EventsServer {
  socket: string;
  rows_url: string;
  id: string;
}

/** The server; takes a directory. */
export const EVENTS_SERVER: Helper<EventsServer> = { module: new URL(import.meta.url), words: [] };

if (import.meta.main) {
  const [dir] = Deno.args;
  const engine = new SmallEngine(await TaskStore.open(join(dir!, "audit")));
  const socket = join(dir!, "run", "b.sock");
  const http = await serveHttp({ engine, socket, tokens: join(dir!, "api-tokens.json"), log: console.error });
  const task = await engine.tasks.create({ repo: "example.com/o/r", instruction: "Talk", agent: "agent_a" });
  await task.move({ from: "admission", to: "staging" });
  await task.move({ from: "staging", to: "running" });
  const adding = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, async ({ url }) => {
    const count = Number(new URL(url).pathname.slice(1));
    for (let row = 0; row < count; row++) {
      await task.append({ type: "output", channel: "stdout", text: `A line of what an agent prints, number ${row}` });
    }
    return new Response();
  });
  report(EVENTS_SERVER, {
    socket: http.socket,
    rows_url: `http://127.0.0.1:${adding.addr.port}`,
    id: task.record.id,
  });
}
