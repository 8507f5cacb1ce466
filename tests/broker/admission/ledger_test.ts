import { unsealed } from "../../support/unsealed.ts";
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import fc from "../../packages/fast_check.ts";
import { nextTurn } from "../../../lib/clock.ts";
import { traceFiles } from "../../../broker/admission/traces.ts";
import { fillDisk, makeRoom } from "../../support/full_disk.ts";
import { mountReadOnlyView, whyNotMountable, withMount } from "../../support/mounts.ts";
import { plantTrace, someOrder } from "../task/lives.ts";
import { DAY_MS, figures, HOUR_MS, refusal, Site, someId } from "./site.ts";

const ON = { global_budget_usd: 10, global_max_tasks: 10 };
const unmountable = await whyNotMountable("tmpfs");
const ended_at = "2026-01-01T00:00:00.000Z";

async function until(holds: () => boolean): Promise<void> {
  for (let turns = 0; !holds(); turns++) {
    assert(turns < 100_000, `never: ${holds}`);
    await nextTurn();
  }
}

const limbs = (site: Site) => {
  const { usd, tasks } = site.admission.ceiling();
  return [usd.blocked, tasks.blocked];
};

// conformance: b2.ceiling.clear
Deno.test("a ledger that is absent admits, and the traces that were there before are not counted", async () => {
  await using site = await Site.make(ON);
  site.plantTrace(someId(), site.clock.now());
  await site.run(9);
  await site.restart(() => Deno.removeSync(site.ledger));
  assertEquals(site.admission.ceiling().starts, 0);
  // Nor at later starts of the broker.
  await site.restart();
  assertEquals([site.admission.ceiling().starts, limbs(site)], [0, [false, false]]);
});

// conformance: b2.ceiling.cannot_tell b7.per_limb
Deno.test("a damaged line blocks the USD limb and counts as one start", async () => {
  await using site = await Site.make(ON);
  await site.run(1);
  await site.restart(() => Deno.writeTextFileSync(site.ledger, "\u0000\u0000 not JSON\n", { append: true }));
  const view = site.admission.ceiling();
  assertEquals([view.damaged, view.recorded_starts, view.spent_usd, limbs(site)], [1, 2, 1, [true, false]]);
  const text = refusal(site.admission)!.message;
  for (const part of ["USD limb", "1 damaged line", `remove ${site.ledger}`, "ages out"]) {
    assertStringIncludes(text, part);
  }
  assertEquals(site.admission.warnings.length, 1);
  // Without a USD limb it is one more start and no reason to refuse.
  site.settings = { ...site.settings, global_budget_usd: 0 };
  await site.restart();
  assertEquals([site.admission.ceiling().starts, refusal(site.admission)], [2, undefined]);
});

Deno.test("damage outlives compaction and restarts, ages out, and leaves a copy of the file behind", async () => {
  await using site = await Site.make(ON);
  const damaged = `${Deno.readTextFileSync(site.ledger)}{"kind":"start"}\n`;
  await site.restart(() => {
    Deno.writeTextFileSync(site.ledger, damaged);
    Deno.utimeSync(site.ledger, site.clock.now() / 1_000, site.clock.now() / 1_000);
  });
  assertEquals(Deno.readTextFileSync(site.ledger.replace(".jsonl", ".damaged.jsonl")), damaged);
  for (let day = 0; day < 3; day++) {
    assertEquals(limbs(site), [true, false]);
    await site.restart(() => site.clock.advance(7 * HOUR_MS));
  }
  await site.restart(() => site.clock.advance(3 * HOUR_MS));
  assertEquals([site.admission.ceiling().damaged, limbs(site)], [0, [false, false]]);
});

Deno.test("a refusal says how long the wait still is, whenever it is asked", async () => {
  await using site = await Site.make({ global_max_tasks: 1 });
  await site.run(1);
  for (const left of ["1d", "18h", "12h", "6h"]) {
    assertStringIncludes(refusal(site.admission)!.message, `ages out in ${left}`);
    site.clock.advance(6 * HOUR_MS);
  }
  assertEquals(refusal(site.admission), undefined);
});

Deno.test("in total mode damage does not age out, and the refusal says so", async () => {
  await using site = await Site.make({ ...ON, global_window: 0 });
  await site.restart(() => Deno.writeTextFileSync(site.ledger, "{}\n", { append: true }));
  site.clock.advance(999 * DAY_MS);
  assertStringIncludes(refusal(site.admission)!.message, "does not age out");
});

for (
  const [what, harm] of Object.entries<(path: string) => void>({
    "a directory in its place": (path) => (Deno.removeSync(path), Deno.mkdirSync(path)),
    "a link in its place": (path) => (Deno.removeSync(path), Deno.symlinkSync("/etc/hostname", path)),
    "larger than any ledger": (path) => Deno.truncateSync(path, 1 << 30),
  })
) {
  // conformance: b2.ceiling.cannot_tell b7.per_limb b7.refusal
  Deno.test(`an unreadable ledger blocks both limbs and is left alone: ${what}`, async () => {
    await using site = await Site.make({ ...ON, max_concurrent_tasks: 9 });
    await site.restart(() => harm(site.ledger));
    assertEquals(limbs(site), [true, true]);
    const before = Deno.lstatSync(site.ledger);
    assertStringIncludes(refusal(site.admission)!.message, "make the ledger readable");
    assertStringIncludes(site.admission.warnings[0]!, site.ledger);
    await site.admission.close();
    const after = Deno.lstatSync(site.ledger);
    assertEquals([after.size, after.isFile, after.isSymlink], [before.size, before.isFile, before.isSymlink]);
    site.settings = { ...site.settings, global_budget_usd: 0, global_max_tasks: 0 };
    await site.start();
    assertEquals(refusal(site.admission), undefined);
    await site.admission.close();
    site.settings = { ...site.settings, ...ON, global_window: 0 };
    await site.start();
    assertStringIncludes(refusal(site.admission)!.message, "does not age out");
  });
}

Deno.test("a file where the ledger's directory should be blocks both limbs", async () => {
  await using site = await Site.make({});
  Deno.writeTextFileSync(`${site.audit_root}/global`, "");
  site.settings = { ...site.settings, ...ON };
  await site.restart();
  assertEquals(limbs(site), [true, true]);
});

Deno.test("an emptied ledger is damaged: its starts come back from the traces, its spend does not", async () => {
  await using site = await Site.make(ON);
  site.plantTrace(await site.run(4), site.clock.now());
  await site.restart(() => Deno.truncateSync(site.ledger));
  const view = site.admission.ceiling();
  assertEquals([view.damaged, view.starts, limbs(site)], [1, 2, [true, false]]);
});

// conformance: b2.ceiling.reconcile
Deno.test("a task of which there is a trace and no row is a start of unknown cost, as old as its file", async () => {
  await using site = await Site.make(ON);
  const { id } = site.begin();
  await site.restart(() => {
    // What the trace says of itself does not count.
    const claims = '{"v":1,"seq":1,"ts":"1999-01-01T00:00:00.000Z","src":"agent","type":"claimed","usd":500}\n';
    site.plantTrace(id, site.clock.now() - 20 * HOUR_MS, claims);
    site.plantTrace("../../etc/passwd".replaceAll("/", "_"), site.clock.now());
    Deno.writeTextFileSync(`${site.audit_root}/index.jsonl`, "{}");
  });
  const view = site.admission.ceiling();
  assertEquals([view.recorded_starts, view.spent_usd, view.oldest_entry], [1, 0, "2025-12-31T04:00:00.000Z"]);
  const { usd, usd_trusted, outcome } = site.lines().at(-1)!;
  assertEquals([usd, usd_trusted, outcome], [null, false, "unknown"]);
  site.clock.advance(4 * HOUR_MS);
  assertEquals(site.admission.ceiling().starts, 0);
});

Deno.test("a start whose end was never recorded counts with what its trace says was spent", async () => {
  await using site = await Site.make(ON);
  const { id } = site.begin();
  const { in_flight: _, ...spend } = { ...figures(3), in_flight: 0 };
  await site.restart(() => {
    const events = [{ type: "created", task: someOrder(id) }, { type: "spend", spend }] as const;
    plantTrace(site.audit_root, events, site.clock.now());
  });
  assertEquals([site.admission.ceiling().recorded_starts, site.admission.ceiling().spent_usd], [1, 3]);
  const { usd, usd_trusted, outcome } = site.lines().at(-1)!;
  assertEquals([usd, usd_trusted, outcome], [3, false, "unknown"]);
});

Deno.test("a start that is reconciled counts once, however often the broker starts", async () => {
  await using site = await Site.make(ON);
  site.plantTrace(site.begin().id, site.clock.now());
  for (let times = 0; times < 3; times++) {
    await site.restart();
    assertEquals(site.admission.ceiling().starts, 1);
  }
  assertEquals(site.lines().length, 2);
});

Deno.test("a task that outlived a broker at the gate, with its end unwritten, is as old as its end", async () => {
  await using site = await Site.make(ON);
  const id = someId();
  site.plantTrace(id, site.clock.now());
  await site.restart();
  // It waits for most of the window, ends, and its broker is killed before it has written that.
  await site.restart(() => {
    site.clock.advance(23 * HOUR_MS);
    site.plantTrace(id, site.clock.now());
  });
  await site.restart(() => site.clock.advance(23 * HOUR_MS));
  assertEquals(site.admission.ceiling().starts, 1);
  await site.restart(() => site.clock.advance(2 * HOUR_MS));
  assertEquals(site.admission.ceiling().starts, 0);
});

Deno.test("rows that name one task twice are one start at the higher cost", async () => {
  await using site = await Site.make(ON);
  const task_id = await site.run(3);
  const [, row] = Deno.readTextFileSync(site.ledger).trimEnd().split("\n");
  await site.restart(() =>
    Deno.writeTextFileSync(site.ledger, `${unsealed(row!).replace('"usd":3', '"usd":0')}\n`, { append: true })
  );
  const view = site.admission.ceiling();
  assertEquals([view.starts, view.spent_usd, site.lines().at(-1)!.task_id], [1, 3, task_id]);
});

// conformance: b2.ceiling.ledger b2.ceiling.clear
Deno.test("a ledger that is removed while the broker runs is written again from memory", async () => {
  await using site = await Site.make(ON);
  await site.run(1);
  Deno.removeSync(site.ledger);
  await site.run(1);
  assertEquals(site.lines().map(({ kind }) => kind), ["opened", "start", "start"]);
  // So is one that another process has added to.
  Deno.writeTextFileSync(site.ledger, "garbage", { append: true });
  await site.run(1);
  await site.restart();
  assertEquals([site.admission.ceiling().spent_usd, site.admission.ceiling().damaged], [3, 0]);
});

// conformance: b2.ceiling.ledger
Deno.test("the file is compacted while it grows, and keeps a month for a longer window", async () => {
  await using site = await Site.make({ global_max_tasks: 1_000_000 });
  for (let n = 0; n < 40; n++) {
    await site.run(0);
    site.clock.advance(DAY_MS);
  }
  await site.restart();
  assertEquals(site.admission.ceiling().starts, 0);
  assertEquals(site.lines().length, 1 + 31);
  site.settings = { ...site.settings, global_window: 7 * DAY_MS };
  await site.restart();
  assertEquals(site.admission.ceiling().starts, 6);
});

Deno.test("a ledger with any damage never counts fewer starts than whole rows are left", async () => {
  await using site = await Site.make({ ...ON, global_max_tasks: 1_000 });
  for (let n = 0; n < 5; n++) await site.run(1);
  await site.admission.close();
  const whole = Deno.readTextFileSync(site.ledger);
  const rows = whole.split("\n").filter((line) => line.includes('"start"'));
  await fc.assert(
    fc.asyncProperty(
      fc.oneof(
        fc.record({ cut: fc.nat(whole.length) }),
        fc.record({ at: fc.nat(whole.length - 1), junk: fc.string({ minLength: 1, maxLength: 40, unit: "binary" }) }),
      ),
      async (harm) => {
        const text = "cut" in harm
          ? whole.slice(0, harm.cut)
          : whole.slice(0, harm.at) + harm.junk + whole.slice(harm.at + harm.junk.length);
        Deno.writeTextFileSync(site.ledger, text);
        await site.start();
        const { starts, spent_usd, damaged, usd } = site.admission.ceiling();
        const left = rows.filter((row) => text.split("\n").includes(row)).length;
        assert(starts >= left, `${starts} of ${left}`);
        assert(usd.blocked === (damaged > 0 || spent_usd >= 10));
        const lines = text.split("\n");
        const intact = lines.every((line) => line === "" || whole.split("\n").includes(line.trimEnd()));
        assert(intact || damaged > 0, "an altered row was believed");
        // A second start of the broker says the same.
        await site.restart();
        const again = site.admission.ceiling();
        assertEquals([again.starts, again.damaged, again.spent_usd], [starts, damaged, spent_usd]);
        await site.admission.close();
      },
    ),
    { numRuns: 60 },
  );
});

Deno.test({
  name: `a disk that fills up at any write of the ledger shuts the gate, says so, and frees it later${unmountable}`,
  ignore: unmountable !== "",
  fn: () =>
    withMount("tmpfs", 1, async (directory) => {
      const site = new Site(directory, { ...ON, max_concurrent_tasks: 9 });
      const hog = `${directory}/hog`;
      const sees = (blocked: boolean) => {
        assertEquals(limbs(site), [blocked, blocked]);
        const refused = refusal(site.admission);
        assertEquals(refused?.code, blocked ? "ceiling_reached" : undefined);
        if (blocked) assertStringIncludes(refused!.message, "cannot keep account");
      };
      // At the first line.
      fillDisk(hog);
      await site.start();
      sees(true);
      makeRoom(hog);
      site.clock.advance(6_000);
      sees(true);
      // The refused start has had it tried again, and the next one finds it written.
      await until(() => !site.admission.ceiling().usd.blocked);
      sees(false);
      // At a row: appended to, or replaced.
      for (let n = 0; n < 3; n++) {
        const { id, claim } = site.begin();
        fillDisk(hog);
        // The page that is open may still have room for a few rows.
        while (!site.admission.ceiling().usd.blocked) {
          const { claim } = site.begin();
          await claim.end({ outcome: "no_diff", ended_at, spend: figures(0) });
          if (site.admission.ceiling().starts > 9) break;
        }
        await claim.end({ outcome: "pushed", ended_at, spend: figures(0.5) });
        makeRoom(hog);
        site.clock.advance(6_000);
        refusal(site.admission);
        await until(() => site.lines().some((line) => line.task_id === id));
        assert(site.lines().some((line) => line.task_id === id && line.usd === 0.5), "what it cost was kept in memory");
        site.clock.advance(DAY_MS);
        await site.restart();
      }
      await site.admission.close();
    }),
});

Deno.test({
  name: `a ledger on a disk that became read-only shuts the gate at once${unmountable}`,
  ignore: unmountable !== "",
  fn: async () => {
    await using site = await Site.make({});
    await site.admission.close();
    await using view = await mountReadOnlyView(site.audit_root);
    const there = new Site(view.directory, ON);
    await there.start();
    assertEquals(limbs(there), [true, true]);
    await there.admission.close();
  },
});

Deno.test("every trace is found by its name alone", async () => {
  await using site = await Site.make({});
  const ids = [someId(), someId()];
  for (const id of ids) site.plantTrace(id, 5_000);
  site.plantTrace("short", 5_000);
  Deno.writeTextFileSync(`${site.audit_root}/${ids[0]}.setup.log`, "");
  assertEquals([...traceFiles(site.audit_root)].map(({ task_id }) => task_id).sort(), ids.sort());
  assertEquals([...traceFiles(`${site.audit_root}/none`)], []);
});
