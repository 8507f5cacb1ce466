import { assertEquals } from "@std/assert";
import { whyNotMountable, withMount } from "../../tests/support/mounts.ts";
import { sql } from "../../tests/support/stores.ts";

const NOT_MOUNTABLE = await whyNotMountable("ext4-1k");

/**
 * Has the database as a session has it, fills the disk except for so many bytes, and commits as an application: what is
 * mapped without a place on the disk would end the process.
 */
const PROGRAM = `
import { CheckoutFile } from "${new URL("checkout_file.ts", import.meta.url)}";
import { WalTail } from "${new URL("wal_tail.ts", import.meta.url)}";
import { sql } from "${new URL("../../tests/support/stores.ts", import.meta.url)}";
import { fillDisk } from "${new URL("../../tests/support/full_disk.ts", import.meta.url)}";
const [path, spare] = Deno.args;
const file = CheckoutFile.open(path, { busy_timeout_ms: 1000 });
const { tail } = WalTail.attach(file);
const holes = file.shm_has_holes;
fillDisk(path + ".fill", Number(spare));
let outcome = "committed";
try { sql(path, "UPDATE t SET v = 2"); } catch (error) { outcome = error.message; }
file.readWal(0, new Uint8Array(32));
Deno.removeSync(path + ".fill");
sql(path, "UPDATE t SET v = 3");
tail.image();
file.close();
console.log(JSON.stringify([holes, outcome]));
`;

Deno.test({
  name: `a commit on a full disk with small blocks fails or succeeds, and ends no process${NOT_MOUNTABLE}`,
  ignore: NOT_MOUNTABLE !== "",
  fn: async (t) => {
    for (const spare of [0, 8 << 10, 16 << 10, 24 << 10]) {
      await t.step(`${spare} bytes are free`, () =>
        withMount("ext4-1k", 6, async (directory) => {
          const path = `${directory}/x.db`;
          sql(path, "PRAGMA journal_mode=WAL", "CREATE TABLE t(v)", "INSERT INTO t VALUES(1)");
          const config = new URL("../../deno.json", import.meta.url).pathname;
          const script = await Deno.makeTempFile({ suffix: ".ts" });
          await Deno.writeTextFile(script, PROGRAM);
          const { stdout, stderr, signal } = await new Deno.Command(Deno.execPath(), {
            args: ["run", "-A", "--quiet", "--no-check", "--config", config, script, path, String(spare)],
          }).output();
          await Deno.remove(script);
          const [out, error] = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes));
          assertEquals([signal, error], [null, ""]);
          const [holes, outcome] = JSON.parse(out!);
          assertEquals(holes, false);
          assertEquals(outcome, spare === 0 ? "database or disk is full" : "committed");
        }));
    }
  },
});
