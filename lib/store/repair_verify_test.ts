/**
 * Verify, repair and scrubbing look at the same things: whatever happens to a file of a store, its workspace or a checkout,
 * a repair that ends with 0 is followed by a verify that ends with 0, and one that does not says what is left.
 */

import { assert, assertEquals } from "@std/assert";
import { join } from "node:path/posix";
import { cutOff } from "../../tests/support/cut_off.ts";
import { LONG, longTest } from "../../tests/support/long.ts";
import { MIN_XFS_MB, whyNotMountable, withMount } from "../../tests/support/mounts.ts";
import { filesOf, grow, localPatient, rewrite } from "../../tests/support/rot.ts";
import { at, fails, rows, withApp, withDirectory } from "../../tests/support/stores.ts";
import { SeededRandom } from "../../tests/support/writers/random.ts";
import { hasCode } from "../errors.ts";
import { removeIfPresent } from "../fs.ts";
import type { Finding, RepairResult } from "./results.ts";

const NO_XFS = await whyNotMountable("xfs");

/** Files by what they are, as far as they differ in it. */
const kindOf = (name: string) => name.replaceAll(/[0-9a-f]{8,}/g, "").replace(/\/(a|b|main|m\d)(?=[.@-])/, "/");

/** As the command line ends. */
const isZero = ({ moved, left, restored }: RepairResult) =>
  moved.length + left.length === 0 && restored.every(({ lost }) => lost === undefined);

async function everyKind(parent: string | undefined): Promise<void> {
  await withDirectory(async (directory) => {
    await using patient = localPatient(directory);
    const place = join(directory, "store");
    {
      using store = await patient.open();
      await grow(store, directory, async () => {});
      await store.fork(at("app"), "gone", { materialize: true });
      await store.destroy(at("app@gone"), { safety: false });
      await store.collectGarbage({ grace_ms: 1e9 });
    }
    // A branch whose session was cut off, with a log and a record beside its checkout.
    await cutOff(place, "sql(session.checkout, `INSERT INTO t VALUES('flushed')`); await session.flush();");
    await patient.keep();
    const names = filesOf(place).map((path) => path.slice(place.length + 1));
    const cases = names.filter((name, i) => LONG || names.findIndex((each) => kindOf(each) === kindOf(name)) === i);
    const random = new SeededRandom(11);
    const met = new Set<string>();
    for (const name of cases.filter((name) => !name.startsWith(".taskd/"))) {
      for (const damage of ["flip", "truncate", "remove"] as const) {
        await patient.reset();
        const path = join(place, name);
        const bytes = Deno.readFileSync(path);
        if (bytes.length === 0 && damage !== "remove") continue;
        const byte = random.between(0, Math.max(0, bytes.length - 1));
        const hurt = () => {
          if (damage === "remove") Deno.removeSync(path);
          else rewrite(path, damage === "truncate" ? bytes.slice(0, byte) : bytes.with(byte, bytes[byte]! ^ 4));
        };
        const what = `${damage} ${name} at ${byte}`;
        hurt();
        const before = await assertScrubbed(patient, what);
        for (const each of before) met.add(each.what);
        // Scrubbing moves damaged copies away.
        await patient.reset();
        hurt();
        using store = await patient.open({ damaged: true });
        const named = (error: Error) => Promise.reject(new Error(what, { cause: error }));
        const result = await store.repair().catch(named);
        const { findings } = await store.verifyAll({ fast: true }).catch(named);
        if (isZero(result)) assertEquals(findings, [], what);
        else assert(result.left.length > 0 || result.moved.length > 0 || before.length > 0, what);
        if (before.length > 0) {
          assert(
            result.restored.length + result.moved.length + result.left.length > 0,
            `${what}: nothing was repaired`,
          );
        }
        // What is left is left by another repair, too, and nothing more.
        const again = await store.repair().catch(named);
        assertEquals(again.left.map(({ where }) => where), result.left.map(({ where }) => where), what);
        // Nothing that people then do is a defect of the program.
        for (const { branch } of await store.branches().catch(named)) {
          await store.export(at(`app@${branch}`), join(directory, "out.db"), { force: true }).catch(expected);
          await store.checkpoint(at(`app@${branch}`), "after").catch(expected);
        }
      }
    }
    const kinds = ["cache", "gap", "manifest", "object", "point", "ref", "sidecar", "tombstones"];
    assertEquals([...met].sort(), kinds);
  }, parent);
}

function expected(error: unknown): void {
  if (
    !hasCode(error, "corrupt", "chain_gap", "dirty", "not_a_database", "already_exists", "capture_failed", "lease_held")
  ) throw error;
}

/** What verify finds; a pass of scrubbing finds something, too, and nothing else. */
async function assertScrubbed(patient: ReturnType<typeof localPatient>, what: string): Promise<Finding[]> {
  using store = await patient.open({ damaged: true });
  const { findings } = await store.verifyAll({ fast: true });
  removeIfPresent(join(store.context.workspace.root, "scrub.json"));
  const { finished, found } = await store.scrub({ scrub_every_ms: 1 });
  assert(finished, what);
  // Objects that no branch needs any more are read by scrubbing alone, until garbage collection takes them.
  // Copies of points without a name are verified and not scrubbed.
  const scrubbed = findings.filter(({ needed_by }) => needed_by?.every((point) => point.includes("@txid:")) !== true);
  if (findings.length > 0) assert(found.length > 0 || scrubbed.length === 0, what);
  else assertEquals(found.filter(({ where }) => !where.startsWith("data/")), [], what);
  return findings;
}

Deno.test("a repair that ends with 0 leaves nothing for verify, whatever file was damaged", () => everyKind(undefined));

longTest({
  name: `and likewise where snapshots are plain images that share blocks with caches${NO_XFS}`,
  ignore: NO_XFS !== "",
  fn: () => withMount("xfs", MIN_XFS_MB, everyKind),
});

Deno.test("a damaged record beside a checkout is made anew only where the file is the head", () =>
  withApp([1, 2], async ({ store, edit }) => {
    const { path } = await store.checkout(at("app"));
    const damage = () => Deno.writeTextFileSync(`${path}.sum`, "{");
    damage();
    assertEquals((await store.verify(at("app"))).findings.map(({ what }) => what), ["sidecar"]);
    assertEquals((await store.repair({ branch: at("app"), dry_run: true })).restored.map(({ where }) => where), [
      `${path}.sum`,
    ]);
    const { restored, left } = await store.repair({ branch: at("app") });
    assertEquals([restored.map(({ what }) => what), left], [["sidecar"], []]);
    assertEquals((await store.verifyAll()).ok, true);
    assertEquals((await store.checkout(at("app"))).source, "kept");
    await edit("main", 3);
    damage();
    for (let i = 0; i < 2; i++) {
      const { restored, left } = await store.repair({ branch: at("app") });
      assertEquals([restored, left.map(({ where }) => where)], [[], [`${path}.sum`]]);
      assert(left[0]!.hint.includes("sqlite3 .backup"));
      assertEquals((await store.verifyAll()).ok, false);
    }
    assertEquals(rows(path), "1,2,3");
    await fails("dirty", store.checkout(at("app")));
    await store.checkout(at("app"), { force: true });
    assertEquals([(await store.repair()).left, (await store.verifyAll()).findings], [[], []]);
  }));

Deno.test("reading a checkout that was cut short is refused, and no defect", () =>
  withApp([1], async ({ store, edit }) => {
    const path = await edit("main", "x".repeat(9000));
    await store.checkpoint(at("app"), "c");
    Deno.truncateSync(path, Deno.statSync(path).size - 4096);
    assertEquals((await store.branches()).map(({ state }) => state), ["dirty"]);
    for (const work of [() => store.checkpoint(at("app"), "d"), () => store.checkout(at("app"))]) {
      await fails(["capture_failed", "corrupt", "not_a_database", "dirty"], work());
    }
  }));
