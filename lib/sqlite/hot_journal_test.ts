import { assert, assertEquals } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import { hotJournal, superJournal } from "../../cli/redteam/hot_journal.ts";
import { isHotJournal } from "./hot_journal.ts";

Deno.test("a journal counts as hot exactly where SQLite removes the file that it names", async () => {
  const directory = Deno.makeTempDirSync();
  const path = `${directory}/a.db`;
  const victim = `${directory}/ledger`;
  const zeros = new Uint8Array(600);
  const tail = superJournal(victim, 4096);
  const kinds: Record<string, [is_hot: boolean, bytes: (database: Uint8Array) => Uint8Array]> = {
    "a whole one": [true, (database) => hotJournal(database, victim)],
    "one byte and a name": [true, () => new Uint8Array([1, ...zeros, ...tail])],
    "zeros and a name": [false, () => new Uint8Array([...zeros, ...tail])],
    "an empty one": [false, () => new Uint8Array()],
  };
  try {
    for (const [kind, [is_hot, bytes]] of Object.entries(kinds)) {
      Deno.writeTextFileSync(victim, "precious");
      new DatabaseSync(path).exec("CREATE TABLE IF NOT EXISTS t (a); INSERT INTO t VALUES (1)");
      Deno.writeFileSync(`${path}-journal`, bytes(Deno.readFileSync(path)));
      assertEquals(await isHotJournal(`${path}-journal`), is_hot, kind);
      const db = new DatabaseSync(path);
      assert(db.prepare("SELECT count(*) AS n FROM t").get());
      db.close();
      const names = [...Deno.readDirSync(directory)].map(({ name }) => name);
      assertEquals(names.includes("ledger"), !is_hot, kind);
    }
    Deno.mkdirSync(`${directory}/folder-journal`);
    Deno.symlinkSync(path, `${directory}/link-journal`);
    assertEquals(await isHotJournal(`${directory}/folder-journal`), true);
    assertEquals(await isHotJournal(`${directory}/link-journal`), true);
    assertEquals(await isHotJournal(`${directory}/absent-journal`), false);
  } finally {
    Deno.removeSync(directory, { recursive: true });
  }
});
