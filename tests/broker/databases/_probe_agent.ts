/**
 * In the built-in agent's place: tries what an agent that was taken over would with the databases, by itself and by calls,
 * and prints what it got.
 */

import { DatabaseSync } from "node:sqlite";
import { type CallAnswer, encodeCall, inputLines, print } from "../../../broker/agent/calls.ts";

const got: Record<string, string> = {};
async function attempt(what: string, work: () => unknown): Promise<void> {
  try {
    await work();
    got[what] = "done";
  } catch (error) {
    got[what] = (error as Error).name;
  }
}

const lines = inputLines();
await lines.next();
async function call(name: string, args: unknown): Promise<string> {
  print(encodeCall({ name, arguments: JSON.stringify(args) }));
  const answer: CallAnswer = JSON.parse((await lines.next()).value!);
  if ("failed" in answer || !answer.ok) throw new Deno.errors.PermissionDenied(JSON.stringify(answer));
  return answer.text;
}
const sql = (statement: string, database = "shop") => call("sql", { database, statement });

await attempt("open its database", () => new DatabaseSync("../databases/shop.db"));
await attempt("read its database", () => Deno.readFileSync("../databases/shop.db"));
await attempt("read another folder of the task", () => Deno.readTextFileSync("../git/secret"));
await attempt("open a database there", () => new DatabaseSync("../git/other.db"));
await attempt("make a database there", () => new DatabaseSync("../new.db"));
await attempt("list the task's folder", () => [...Deno.readDirSync("..")]);
await attempt("exchange the folder of its databases", () => Deno.renameSync("../databases", "../gone"));
await attempt("link to a file outside", () => Deno.symlinkSync("../git/secret", "../databases/link"));
await attempt("have its database changed", () => sql("DELETE FROM items WHERE id = 1"));
await attempt("have another one attached", () => sql("ATTACH '../git/other.db' AS o"));
await attempt("have one copied out", () => sql("VACUUM INTO '../git/out.db'"));
await attempt("have its schema written", () => sql("UPDATE sqlite_schema SET sql = 'x'"));
await attempt("have its schema made writable", () => sql("PRAGMA writable_schema = ON"));
await attempt("have temporary files written elsewhere", () => sql("PRAGMA temp_store_directory = '../git'"));
await attempt("have an extension loaded", () => sql("SELECT load_extension('../git/x.so')"));
await attempt("have a file read as a database", () => sql("SELECT 1", "../git/other.db"));
// Files are made in the work folder alone, so that none can be made beside a database.
const journal = "../databases/shop.db-journal";
await attempt("have a journal written beside it", () => call("write", { path: journal, content: "x" }));
await attempt("have its folder read", () => call("list", { path: "../databases" }));
console.log(JSON.stringify(got));
Deno.exit(0);
