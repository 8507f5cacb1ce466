import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { connect } from "../../lib/client/client.ts";
import { makeBucketPlace } from "../cli/support/bucket.ts";
import { startDaemon } from "../cli/support/daemon.ts";
import { textLines } from "../support/text_lines.ts";
import type { Place } from "../cli/support/taskd.ts";
import { startMinio } from "../support/minio.ts";
import type { S3Server } from "../support/s3_server.ts";
import { startVersitygw } from "../support/second_s3.ts";
import { Writer, WRITER_KINDS } from "../support/writers.ts";
import { EXPECTED_MONEY, inspect, sqlite3Write } from "../support/writers/oracle.ts";
import { SeededRandom } from "../support/writers/random.ts";
import { initialSchema, workload } from "../support/writers/workload.ts";
import { longTest } from "../support/long.ts";

let minio: S3Server;
let versitygw: S3Server;
Deno.test.beforeAll(async () => {
  [minio, versitygw] = await Promise.all([startMinio(), startVersitygw()]);
});
Deno.test.afterAll(async () => {
  await minio[Symbol.asyncDispose]();
  await versitygw[Symbol.asyncDispose]();
});

/** `bank@main` with the workload's tables. */
async function makeBank(place: Place): Promise<void> {
  await sqlite3Write(`${place.base}/bank.db`, `BEGIN; ${initialSchema().join(";")}; COMMIT;`);
  await place.json(["create", "bank", "--from", "bank.db"]);
}

/** What the bucket holds of `bank@main`, as a host sees it that has nothing else. */
async function stored(server: S3Server, { store }: Place) {
  await using host = await makeBucketPlace(server, { store });
  await host.json(["export", "bank", "out.db"]);
  const found = await inspect(`${host.base}/out.db`);
  assertEquals([found.integrity, found.money], ["ok", EXPECTED_MONEY]);
  return found;
}

for (const [name, server] of [["MinIO", () => minio], ["versitygw", () => versitygw]] as const) {
  longTest(
    `what stock clients commit is in a bucket of ${name} after a flush, also when the daemon is killed`,
    async () => {
      await using place = await makeBucketPlace(server());
      await makeBank(place);
      const daemon = await startDaemon(place);
      assertEquals(daemon.hello.store, place.store);
      assertStringIncludes(daemon.hello.socket, `${place.base}/home/.taskd/workspaces/`);
      const path = (await place.taskd("session", "open", "bank")).stdout.trim();
      const random = new SeededRandom(7);
      const writers = await Promise.all(WRITER_KINDS.map((kind) => Writer.start(kind, path)));
      const work = writers.map((_, writer) => workload(random.fork(), writer));
      const commit = (count: number) =>
        Promise.all(writers.map(async (writer, index) => {
          for (let done = 0; done < count; done++) await writer.run(work[index]!.next().value!);
        }));
      await commit(10);
      await place.json(["session", "flush", "bank"]);
      const flushed = await stored(server(), place);
      assertEquals(flushed.digest, (await inspect(path)).digest);
      for (const [index, writer] of writers.entries()) {
        assertEquals([...flushed.acknowledged.get(index)!].toSorted((a, b) => a - b), writer.acknowledged);
      }

      await commit(10);
      await daemon.stop("SIGKILL");
      // No session captures now, and still nothing is lost: it is in the checkout.
      await commit(10);
      assertEquals((await stored(server(), place)).digest, flushed.digest);
      await using again = await startDaemon(place);
      assertEquals((await place.taskd("session", "open", "bank")).stdout.trim(), path);
      await commit(10);
      for (const writer of writers) await writer.end();
      assertEquals((await again.stop()).code, 0);
      const last = await stored(server(), place);
      assertEquals(last.digest, (await inspect(path)).digest);
      for (const [index, writer] of writers.entries()) {
        for (const seq of writer.acknowledged) assert(last.acknowledged.get(index)!.has(seq));
      }
    },
  );
}

longTest("one daemon works in a workspace; on another host leases keep the branches apart", async () => {
  await using place = await makeBucketPlace(minio);
  await makeBank(place);
  await using daemon = await startDaemon(place);
  assertEquals((await place.json(["serve"], 1)).code, "daemon_running");
  await place.json(["session", "open", "bank"]);
  assertEquals((await place.json(["lease", "bank"])).live, true);

  await using host = await makeBucketPlace(minio, { store: place.store });
  await using other = await startDaemon(host);
  assertEquals((await host.json(["session", "open", "bank"], 1)).code, "lease_held");
  await host.json(["fork", "bank", "theirs"]);
  await host.json(["session", "open", "bank@theirs"]);
  assertEquals((await place.json(["session", "open", "bank@theirs"], 1)).code, "lease_held");
  await place.json(["session", "close", "bank"]);
  // A released lease is free.
  await host.json(["session", "open", "bank"]);
  assertEquals((await other.stop()).code, 0);
  assertEquals((await daemon.stop()).code, 0);
  assertEquals((await place.json(["verify", "--all"])).intact, true);
});

longTest("the janitor reaps and collects in a bucket while a session lives", async () => {
  await using place = await makeBucketPlace(minio);
  await makeBank(place);
  await place.json(["fork", "bank", "brief", "--materialize"]);
  const before = await place.json(["gc", "--dry-run"]);
  await using daemon = await startDaemon(place, "-reap-every", "50ms", "-gc-grace", "0", "-ro-cache-budget", "1K");
  const path = (await place.taskd("session", "open", "bank")).stdout.trim();
  const watcher = place.start("watch", "--json");
  const notes = textLines(watcher.stderr);
  await notes.next();
  const events = textLines(watcher.stdout);
  await place.json(["touch", "bank@brief", "--ttl", "1ms"]);
  for await (const line of events) if (JSON.parse(line).type === "reaped") break;
  await sqlite3Write(path, "INSERT INTO item(writer, body) VALUES (0, 'while collecting')");
  await place.json(["session", "flush", "bank"]);
  // In addition to the janitor's passes, two passes complete.
  for (let pass = 0; pass < 2; pass++) await place.json(["gc", "--grace", "0"]);
  const after = await place.json(["gc", "--dry-run"]);
  assertEquals([after.tombstoned, after.backlog], [0, 0]);
  assert(Number(before.marked) >= 2 && Number(after.marked) >= 1);
  assertEquals((await place.json(["branches"]) as { branches: unknown[] }).branches.length, 1);
  // It ended when its reader left.
  await watcher.status;
  await notes.return();
  const { code, errors } = await daemon.stop();
  assertEquals(code, 0, errors);
  assertEquals(/janitor: (reap|gc|ro-cache): (?!destroyed|evicted)/.test(errors), false, errors);
  assertEquals((await stored(minio, place)).digest, (await inspect(path)).digest);
});

longTest("neither the daemon's log nor its answers hold a secret", async () => {
  await using server = await startMinio();
  await using place = await makeBucketPlace(server);
  await makeBank(place);
  await using daemon = await startDaemon(place);
  const answers = [daemon.hello];
  {
    using client = await connect(daemon.hello.socket);
    answers.push(await client.call("status", {}));
    answers.push(await client.call("open", { db: "bank" }));
    Deno.kill(server.pid, "SIGKILL");
    // The server is gone: what the daemon says of it now is what an operator reads.
    answers.push(await client.call("flush", { db: "bank" }).catch(String), await client.call("gc", {}).catch(String));
  }
  const { errors } = await daemon.stop("SIGKILL");
  for (const text of [JSON.stringify(answers), errors]) {
    assert(!text.includes(server.credentials.secret_access_key), text);
    assert(!/Signature=|AWS4-HMAC/.test(text), text);
  }
  assertStringIncludes(JSON.stringify(answers), "ECONNREFUSED");
});
