/**
 * A stock writer on node:sqlite: runs jobs from stdin, one JSON object per line, and
 * answers each with `ack N`, `busy N` or `error N text` after the commit.
 */

import { DatabaseSync } from "node:sqlite";
import type { Job } from "./workload.ts";

const [path, timeoutMs] = Deno.args as [string, string];
const writer = open();
const reader = open();

function open(): DatabaseSync {
  const database = new DatabaseSync(path);
  database.exec(`PRAGMA busy_timeout=${Number(timeoutMs)}`);
  return database;
}

function run(job: Job): void {
  if (job.kind === "reader") {
    if (job.reader === "begin") {
      reader.exec("BEGIN");
      reader.prepare("SELECT count(*) FROM sqlite_schema").get();
    } else if (reader.isTransaction) {
      reader.exec("COMMIT");
    }
    return;
  }
  if (job.kind === "transaction") writer.exec("BEGIN IMMEDIATE");
  for (const statement of job.sql) writer.exec(statement);
  if (job.kind === "transaction") writer.exec("COMMIT");
}

function say(text: string): void {
  Deno.stdout.writeSync(new TextEncoder().encode(text + "\n"));
}

say("ready");
let rest = "";
for await (const chunk of Deno.stdin.readable.pipeThrough(new TextDecoderStream())) {
  const lines = (rest + chunk).split("\n");
  rest = lines.pop()!;
  for (const line of lines) {
    const job = JSON.parse(line) as Job;
    try {
      run(job);
      say(`ack ${job.seq}`);
    } catch (error) {
      if (writer.isTransaction) writer.exec("ROLLBACK");
      const text = String((error as Error).message);
      say(`${text.includes("locked") ? "busy" : "error"} ${job.seq} ${text}`);
    }
  }
}
