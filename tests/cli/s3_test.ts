import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { walkSync } from "@std/fs/walk";
import { FaultProxy } from "../support/fault_proxy.ts";
import { startMinio } from "../support/minio.ts";
import type { S3Server } from "../support/s3_server.ts";
import { startVersitygw } from "../support/second_s3.ts";
import { dumpDigest, sqlite3, sqlite3Write } from "../support/writers/oracle.ts";
import { makeBucketPlace, newLocation } from "./support/bucket.ts";
import { makePlace, type Place } from "./support/taskd.ts";
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

/** `shop@main` with one table of two rows, and its checkout. */
async function makeShop(place: Place): Promise<string> {
  await sqlite3Write(`${place.base}/shop.db`, "CREATE TABLE item(id INTEGER PRIMARY KEY, name)");
  await sqlite3Write(`${place.base}/shop.db`, "INSERT INTO item VALUES (1, 'a'), (2, 'b')");
  await place.json(["create", "shop", "--from", "shop.db"]);
  return String((await place.json(["checkout", "shop"])).path);
}

const names = (path: string) => sqlite3(path, ["SELECT group_concat(name, '') FROM item"]);

for (const [name, server] of [["MinIO", () => minio], ["versitygw", () => versitygw]] as const) {
  longTest(`a branch lives its whole life in a bucket of ${name}, by the program alone`, async () => {
    await using place = await makeBucketPlace(server());
    const path = await makeShop(place);
    assertMatch(path, /\/home\/\.taskd\/workspaces\/[0-9a-f]{16}\/checkouts\/shop\/main\.db$/);
    assertEquals((await place.json(["checkpoint", "shop", "v1"])).txid, 1);
    await sqlite3Write(path, "INSERT INTO item VALUES (3, 'c')");
    assertEquals((await place.json(["checkpoint", "shop", "v2"])).txid, 2);
    assertEquals((await place.json(["fork", "shop", "old", "--at", "v1"])).mode, "shared");
    const { tables } = await place.json(["diff", "shop@old", "shop"]) as { tables: { rows_added: number }[] };
    assertEquals(tables[0]!.rows_added, 1);
    const back = await place.json(["rollback", "shop", "--to", "v1"]);
    assertEquals([back.mode, back.safety_branch, await names(path)], ["shared", "main-pre-rollback", "ab\n"]);
    await place.json(["promote", "shop@main-pre-rollback", "--onto", "main", "--no-safety"]);
    assertEquals(await names(path), "abc\n");
    assertEquals((await place.json(["compact", "shop@old"])).branch, "old");
    assertEquals((await place.json(["verify", "--all"])).intact, true);
    await place.json(["export", "shop@main@v2", "out.db"]);
    assertEquals(await dumpDigest(`${place.base}/out.db`), await dumpDigest(path));

    for (const branch of ["old", "main-pre-rollback"]) await place.json(["destroy", `shop@${branch}`, "--no-safety"]);
    assert(Number((await place.json(["gc", "--grace", "0"])).tombstoned) > 0);
    assert(Number((await place.json(["gc", "--grace", "0"])).deleted) > 0);
    const { branches } = await place.json(["branches"]) as { branches: Record<string, unknown>[] };
    assertEquals(branches.map(({ branch, state }) => [branch, state]), [["main", "idle"]]);
    assertEquals((await place.json(["verify", "--all"])).intact, true);

    // Another host knows nothing but the location.
    await using other = await makeBucketPlace(server(), { store: place.store });
    await other.json(["export", "shop", "out.db"]);
    assertEquals(await dumpDigest(`${other.base}/out.db`), await dumpDigest(path));
    assertEquals((await other.json(["branches"]) as { branches: { branch: string }[] }).branches.length, 1);
  });
}

Deno.test("-workspace names the directory of checkouts, and with it who meets whom", async () => {
  await using place = await makeBucketPlace(minio);
  await place.json(["create", "shop", "-workspace", "here"]);
  assertEquals(
    (await place.json(["checkout", "shop", "-workspace", "here"])).path,
    `${place.base}/here/checkouts/shop/main.db`,
  );
  assertEquals([...Deno.readDirSync(place.base)].map(({ name }) => name).toSorted(), ["here"]);
  // The checkouts there are those of one store, whatever its branches are called.
  const other = ["-store", newLocation(minio), "-workspace", "here"];
  const { code, error } = await place.json(["create", "shop", ...other], 2);
  assertEquals([code, String(error).endsWith("it is another store's")], ["usage", true]);
});

longTest("what does not reach a store is reported in words of its own, and never with a secret", async () => {
  const secret = minio.credentials.secret_access_key;
  const reported = async (env: Record<string, string>, words: string[] = []) => {
    await using place = await makeBucketPlace(minio, { env });
    const { code, stdout, stderr } = await place.taskd("branches", ...words);
    assertEquals(stdout, "");
    for (const value of [secret, "wrong-secret"]) assert(!stderr.includes(value), stderr);
    const json = await place.taskd("branches", ...words, "--json");
    for (const value of [secret, "wrong-secret"]) assert(!(json.stdout + json.stderr).includes(value));
    return [code, JSON.parse(json.stdout).code, stderr] as const;
  };
  const table: [number, string, string, Record<string, string>, string[]?][] = [
    [1, "unavailable", "ECONNREFUSED", { BSTORE_S3_ENDPOINT: "http://127.0.0.1:9" }],
    [1, "denied", "signature", { AWS_SECRET_ACCESS_KEY: "wrong-secret" }],
    [1, "denied", "no credentials were found", { AWS_ACCESS_KEY_ID: "", AWS_EC2_METADATA_DISABLED: "true" }],
    [1, "not_found", "Create the bucket first", {}, ["-store", "s3://no-such-bucket/x"]],
    [2, "usage", "Cannot open s3:/x: it is no bucket and prefix", {}, ["-store", "s3:/x"]],
    [2, "usage", "s3://...@bucket", {}, ["-store", "s3://me:wrong-secret@bucket"]],
    [2, "usage", "there are no gs:// stores", {}, ["-store", "gs://bucket"]],
    [2, "usage", "must not hold credentials", { BSTORE_S3_ENDPOINT: "http://me:wrong-secret@127.0.0.1:9" }],
    [2, "usage", "is its own", { BSTORE_STORE: "here", BSTORE_WORKSPACE: "there" }],
  ];
  for (const [code, short, words, env, more] of table) {
    const outcome = await reported(env, more);
    assertEquals(outcome.slice(0, 2), [code, short], outcome[2]);
    assertStringIncludes(outcome[2], words);
  }
});

/** A store of several branches and objects in a directory. */
async function makeLocal(): Promise<Place> {
  const place = await makePlace();
  const path = await makeShop(place);
  for (const version of ["v1", "v2", "v3"]) {
    await sqlite3Write(path, `INSERT INTO item(name) VALUES ('${version}')`);
    await place.json(["checkpoint", "shop", version]);
  }
  await place.json(["fork", "shop", "own", "--materialize"]);
  await place.json(["fork", "shop", "try", "--at", "v2"]);
  return place;
}

longTest(
  "copy-store killed in the middle leaves no store, resumes, and copies back the same",
  async () => {
    await using local = await makeLocal();
    await using proxy = new FaultProxy(minio.endpoint);
    const target = newLocation(minio);
    const reached = Promise.withResolvers<void>();
    let objects = 0;
    proxy.plan = ({ method, target }) => {
      if (method !== "PUT" || !target.includes("/data/") || ++objects <= 2) return undefined;
      reached.resolve();
      return { kind: "hang" };
    };
    await using through = await makeBucketPlace(minio, { store: target, endpoint: proxy.endpoint });
    const killed = through.start("copy-store", local.store, target);
    await reached.promise;
    killed.kill("SIGKILL");
    const [{ success }] = await Promise.all([killed.status, killed.stdout.cancel(), killed.stderr.cancel()]);
    assertEquals(success, false);

    await using host = await makeBucketPlace(minio, { store: target });
    const { code, error } = await host.json(["branches"], 1);
    assertEquals(code, "not_a_store", String(error));
    const up = await host.json(["copy-store", local.store, target]);
    assert(Number(up.skipped) >= 1 && Number(up.skipped) < Number(up.objects), JSON.stringify(up));
    assertEquals([up.source, up.target, up.branches], [local.store, target, 3]);
    assertEquals((await host.json(["copy-store", local.store, target])).copied_bytes, 0);
    assertEquals((await host.json(["verify", "--all"])).intact, true);

    const home = `${host.base}/back`;
    const down = await host.taskd("copy-store", target, home);
    assertMatch(down.stdout, /^Copied 3 branches and \d+ objects \(.+\) to .*\/back\n$/);
    for (const [index, address] of ["shop", "shop@own", "shop@try", "shop@main@v1"].entries()) {
      const digests = [];
      for (const [place, store] of [[local, local.store], [host, home]] as const) {
        await place.json(["export", address, `out-${index}.db`, "-store", store]);
        digests.push(await dumpDigest(`${place.base}/out-${index}.db`));
      }
      assertEquals(digests[0], digests[1], address);
    }
  },
);

longTest("repair takes what a directory has lost from a copy in a bucket, and writes nothing there", async () => {
  await using local = await makeLocal();
  await using host = await makeBucketPlace(minio);
  await host.json(["copy-store", local.store, host.store]);
  const lost = [...walkSync(`${local.store}/data`, { includeDirs: false })].filter(({ name }) => name !== "base.json");
  for (const { path } of lost) Deno.removeSync(path);
  // Nor anything local that proves what is lost.
  for (const folder of ["checkouts", "checkouts-ro"]) {
    await Deno.remove(`${local.store}/${folder}`, { recursive: true }).catch(() => {});
  }
  assertEquals((await host.json(["repair", "--all", "-store", local.store], 1)).moved, []);
  const { error, code } = await host.json(["repair", "--all", "-store", local.store, "--from", newLocation(minio)], 1);
  assertEquals([code, String(error).endsWith("no store is there")], ["not_a_store", true]);
  await using proxy = new FaultProxy(minio.endpoint);
  const written: string[] = [];
  proxy.plan = ({ method, target }) => {
    if (method !== "GET" && method !== "HEAD") written.push(`${method} ${target}`);
    return undefined;
  };
  const from = ["--from", host.store, "--s3-endpoint", proxy.endpoint];
  const { restored, left } = await host.json(["repair", "--all", "-store", local.store, ...from]);
  assertEquals([(restored as unknown[]).length, left, written], [lost.length, [], []]);
  assertEquals((await host.json(["verify", "--all", "-store", local.store])).intact, true);
});

longTest("copy-store touches neither a place that is taken nor one that holds no store", async () => {
  await using one = await makeLocal();
  await using two = await makeLocal();
  assertEquals((await one.json(["copy-store", one.store, two.store], 1)).code, "not_a_store");
  assertEquals((await one.json(["copy-store", one.store, one.store], 2)).code, "usage");
  await Deno.mkdir(`${one.base}/empty`);
  for (const source of ["empty", "missing"]) {
    assertEquals((await one.json(["copy-store", source, "target"], 1)).code, "not_a_store");
  }
  assertEquals([...Deno.readDirSync(`${one.base}/empty`)], []);
  assertEquals((await one.json(["verify", "--all"])).intact, true);
  assertEquals((await one.json(["copy-store", one.store, "copy"])).branches, 3);
  assertEquals((await one.json(["verify", "--all", "-store", "copy"])).intact, true);
});
