/**
 * In the built-in agent's place: tries what an agent that was taken over would, and prints what it got.
 */

import { DatabaseSync } from "node:sqlite";

const got: Record<string, string> = {};
function attempt(what: string, work: () => unknown): void {
  try {
    work();
    got[what] = "done";
  } catch (error) {
    got[what] = (error as Error).name;
  }
}

attempt("change its database", () => new DatabaseSync("../databases/shop.db").exec("DELETE FROM items"));
attempt("read another folder of the task", () => Deno.readTextFileSync("../git/secret"));
attempt("open a database there", () => new DatabaseSync("../git/other.db"));
attempt("make a database there", () => new DatabaseSync("../new.db"));
attempt("attach one", () => new DatabaseSync("../databases/shop.db").exec("ATTACH '../git/other.db' AS o"));
attempt("copy one out", () => new DatabaseSync("../databases/shop.db").exec("VACUUM INTO '../git/out.db'"));
attempt("list the task's folder", () => [...Deno.readDirSync("..")]);
attempt("exchange the folder of its databases", () => {
  Deno.renameSync("../databases", "../gone");
});
attempt("link to a file outside", () => Deno.symlinkSync("../git/secret", "../databases/link"));
console.log(JSON.stringify(got));
Deno.exit(0);
