import { assert, assertEquals } from "@std/assert";
import { sqlite3, sqlite3Write } from "../support/writers/oracle.ts";
import { SeededRandom } from "../support/writers/random.ts";
import { Bench, type Operator } from "./_bench.ts";
import { longTest } from "../support/long.ts";
import { testSeed } from "../support/seed.ts";

/** `CROWD=500` does more. */
const OPERATIONS = Number(Deno.env.get("CROWD") ?? 60);
const SEED = testSeed(9);

/** Codes that an operation may answer because of concurrent ones. */
const CROWDED = ["lease_held", "busy", "dirty", "conflict", "already_exists", "not_found", "branch_deleting"];

const BRANCHES = ["main", "b1", "b2", "b3"];

/** A random operation on a random branch. */
function request(random: SeededRandom, serial: number): [op: string, ...args: unknown[]] {
  const address = { db: "app", branch: random.pick(BRANCHES) };
  const other = { db: "app", branch: random.pick(BRANCHES) };
  const checkpoint = `cp${random.between(0, serial)}`;
  switch (random.between(1, 12)) {
    case 1:
      return ["fork", address, random.pick(BRANCHES), { materialize: random.chance(0.3) }];
    case 2:
      return ["rollback", { ...address, checkpoint }, { safety: false }];
    case 3:
      return other.branch === address.branch ? ["branches"] : ["promote", other, address, { safety: false }];
    case 4:
      return ["compact", address];
    case 5:
      return address.branch === "main" ? ["databases"] : ["destroy", address, { confirm: true }];
    case 6:
      return ["status", address];
    case 7:
      return ["verify", address];
    case 8:
      return ["checkout", { ...address, checkpoint }];
    case 9:
    case 10:
      return ["checkout", address];
    default:
      return ["checkpoint", address, `cp${serial}`];
  }
}

Deno.test("concurrent processes in one workspace never damage each other's data", async () => {
  await using bench = await Bench.make();
  const first = bench.operator();
  const source = await bench.database({ rows: 50 });
  await sqlite3Write(source, "CREATE TABLE twin(a INTEGER, b INTEGER); INSERT INTO twin VALUES(0, 0)");
  await first.ok("create", "app", { from: source });
  for (const branch of BRANCHES.slice(1)) await first.ok("fork", { db: "app", branch: "main" }, branch);

  const random = new SeededRandom(SEED);
  let serial = 0;
  const outcomes: Record<string, number> = {};
  const work = async (operator: Operator, own: SeededRandom) => {
    for (let count = 0; count < OPERATIONS; count++) {
      if (own.chance(0.3)) {
        await edit(`${bench.location}/checkouts/app/${own.pick(BRANCHES)}.db`);
        continue;
      }
      const [op, ...args] = request(own, serial++);
      const answer = await operator.run(op, ...args);
      assert(answer !== undefined, `${op} hung or died`);
      if (!answer.ok) assert(CROWDED.includes(answer.code), `${op}: ${answer.code}: ${answer.message}`);
      const outcome = `${op} ${answer.ok ? "ok" : answer.code}`;
      outcomes[outcome] = (outcomes[outcome] ?? 0) + 1;
    }
    await operator.end();
  };
  await Promise.all(Array.from({ length: 4 }, () => work(bench.operator(), random.fork())));
  if (Deno.env.get("CROWD_LOG") === "1") console.log(outcomes);

  const listed = await first.ok("branches") as unknown as { branch: string; checkpoints: { name: string }[] }[];
  for (const { branch, checkpoints } of listed) {
    for (const checkpoint of [undefined, ...checkpoints.map(({ name }) => name)]) {
      const file = bench.file("proof");
      await first.ok("export", { db: "app", branch, ...(checkpoint === undefined ? {} : { checkpoint }) }, file);
      assertEquals(await sqlite3(file, ["PRAGMA integrity_check; SELECT count(*) FROM twin WHERE a = b"]), "ok\n1\n");
      await Deno.remove(file);
    }
    await first.ok("checkout", { db: "app", branch }, { force: true });
    await edit(`${bench.location}/checkouts/app/${branch}.db`);
    await first.ok("checkpoint", { db: "app", branch }, "the-end");
  }
  await first.end();
});

/** One transaction of an application, if there is a checkout for it; whether it was committed. */
async function edit(path: string): Promise<boolean> {
  const sql = "BEGIN IMMEDIATE; UPDATE twin SET a = a + 1; INSERT INTO t(body) VALUES(hex(randomblob(500)));" +
    "UPDATE twin SET b = b + 1; COMMIT";
  try {
    // mode=rw, so that a checkout that is not there does not come up as an empty database.
    await sqlite3Write(`file:${path}?mode=rw`, sql);
    return true;
  } catch (error) {
    // The last: the file was replaced between the opening and the first lock.
    assert(
      /unable to open|locked|disk I\/O error|readonly|not a database/.test((error as Error).message),
      (error as Error).message,
    );
    return false;
  }
}

longTest("an edit that is committed beside operations at rest is in the next checkpoint", async () => {
  await using bench = await Bench.make();
  const first = bench.operator();
  const source = await bench.database({ rows: 50 });
  await sqlite3Write(source, "CREATE TABLE twin(a INTEGER, b INTEGER); INSERT INTO twin VALUES(0, 0)");
  await first.ok("create", "app", { from: source });
  const main = { db: "app", branch: "main" };
  const { path } = await first.ok("checkout", main);
  const random = new SeededRandom(SEED);
  let serial = 0;
  let edits = 0;
  let busy = true;
  const work = async (own: SeededRandom) => {
    let operator = bench.operator();
    for (let count = 0; count < OPERATIONS; count++) {
      const request: [op: string, ...args: unknown[]] = own.pick([
        ["checkout", main],
        ["checkpoint", main, `cp${serial++}`],
        ["compact", main],
        ["status", main],
        ["fork", main, `f${serial++}`],
      ]);
      const answering = operator.run(...request);
      if (own.chance(0.05)) {
        await operator.kill();
        operator = bench.operator();
      }
      const answer = await answering;
      if (answer?.ok === false) {
        assert(CROWDED.includes(answer.code), `${request[0]}: ${answer.code}: ${answer.message}`);
      }
    }
    await operator.end();
  };
  const application = async () => {
    while (busy) if (await edit(String(path))) edits++;
  };
  const applications = [application(), application()];
  await Promise.all([work(random.fork()), work(random.fork())]);
  busy = false;
  await Promise.all(applications);

  await first.ok("checkpoint", main, "the-end");
  const file = bench.file("proof");
  await first.ok("export", { ...main, checkpoint: "the-end" }, file);
  assertEquals(await sqlite3(file, ["PRAGMA integrity_check; SELECT a, b FROM twin"]), `ok\n${edits}|${edits}\n`);
  assert(edits > 20);
  await first.end();
});
