import { assertEquals, assertThrows } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import { openName, urisWork } from "./open_name.ts";

const PROGRAM = `
import { DatabaseSync } from "node:sqlite";
import { openName, urisWork } from ${JSON.stringify(import.meta.resolve("./open_name.ts"))};
const [dir] = Deno.args;
const db = new DatabaseSync(openName(dir + "/a?.db", { mode: "rw" }));
db.exec("INSERT INTO t VALUES (2)");
db.close();
let missing;
try {
  openName(dir + "/missing.db", { mode: "rw" });
} catch (error) {
  missing = error.code;
}
console.log(JSON.stringify({ uris_work: urisWork(), missing, files: [...Deno.readDirSync(dir)].map((e) => e.name) }));
`;

Deno.test("openName() opens the file and creates none, with any rights of the process", async () => {
  const dir = await Deno.makeTempDir();
  try {
    const path = `${dir}/a?.db`;
    const db = new DatabaseSync(path);
    db.exec("CREATE TABLE t(x)");
    db.close();
    for (const grants of [[`--allow-read=${dir}`, `--allow-write=${dir}`], ["--allow-read", "--allow-write"], ["-A"]]) {
      const child = new Deno.Command(Deno.execPath(), {
        args: ["run", "--no-prompt", "--no-check", ...grants, "-", dir],
        cwd: import.meta.dirname!,
        stdin: "piped",
        stdout: "piped",
      }).spawn();
      const writer = child.stdin.getWriter();
      await writer.write(new TextEncoder().encode(PROGRAM));
      await writer.close();
      const { uris_work, missing, files } = JSON.parse(new TextDecoder().decode((await child.output()).stdout));
      assertEquals(missing, uris_work ? undefined : "not_found"); // with a URI SQLite itself refuses
      assertEquals(files, ["a?.db"]);
    }
    const reader = new DatabaseSync(path, { readOnly: true });
    assertEquals(reader.prepare("SELECT count(*) AS n FROM t").get()!.n, 3);
    reader.close();
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});

Deno.test("openName() is a URI where every permission is granted", { ignore: !urisWork() }, () => {
  assertEquals(openName("/x/a.db", { mode: "rw" }), "file:///x/a.db?mode=rw");
  assertThrows(() => new DatabaseSync(openName("/nowhere/a.db", { mode: "rw" })), Error, "unable to open");
});
