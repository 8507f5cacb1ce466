/**
 * The engine behind a proxy that disturbs every seventh request or so: an operation fails with a
 * code that says whether to try again, and trying again is enough.
 */

import { OUTRIGHT } from "../support/stores.ts";
import { assert, assertEquals } from "@std/assert";
import { hasCode } from "../../lib/errors.ts";
import { parseAddress } from "../../lib/store/names.ts";
import { S3Backend } from "../../lib/backend/s3.ts";
import { Store } from "../../lib/store/store.ts";
import { FaultProxy, type ProxyFault } from "../support/fault_proxy.ts";
import { backendOptions, emptyS3, type S3Place } from "../support/s3_server.ts";
import { dumpDigest, sqlite3Write } from "../support/writers/oracle.ts";
import { SeededRandom } from "../support/writers/random.ts";

const at = parseAddress;
const RATE = 0.15;
const ATTEMPTS = 12;

function fault(random: SeededRandom, method: string): ProxyFault | undefined {
  if (!random.chance(RATE)) return undefined;
  const injected = random.pick<ProxyFault>([
    { kind: "cut" },
    { kind: "cut_answer" },
    { kind: "truncate", body_bytes: random.between(0, 500) },
    { kind: "answer", status: 500, code: "InternalError", after: random.chance(0.5) },
    { kind: "answer", status: 503, code: "SlowDown" },
    { kind: "answer", status: 412, code: "PreconditionFailed", after: true },
  ]);
  return injected.kind === "answer" && injected.status === 412 && method !== "PUT" ? undefined : injected;
}

/** Does `work` until it succeeds, or has evidently succeeded before: `done` is the code that says so. */
async function persist(work: () => Promise<unknown>, done?: "already_exists" | "not_found"): Promise<void> {
  for (let attempt = 1;; attempt++) {
    try {
      await work();
      return;
    } catch (error) {
      if (done !== undefined && attempt > 1 && hasCode(error, done)) return;
      const again = hasCode(error, "ambiguous", "unavailable", "stalled", "conflict", "lease_held");
      if (!again || attempt === ATTEMPTS) throw error;
    }
  }
}

/** Registers the promise for the server that `place` names. */
export function harmedEngineOnS3(name: string, place: () => S3Place & { endpoint: string }): void {
  Deno.test(`${name}: behind harmed requests every operation can be tried again until it is done, once`, async () => {
    await using inner = await emptyS3(place());
    await using proxy = new FaultProxy(place().endpoint);
    const options = backendOptions({ ...place(), endpoint: proxy.endpoint }, inner.prefix);
    const backend = await S3Backend.open({ ...options, deadlines: { begin_ms: 2000, idle_ms: 2000 } });
    const scratch = await Deno.makeTempDir({ prefix: "s3-harmed-" });
    const random = new SeededRandom(7);
    proxy.plan = ({ method }) => fault(random, method);
    try {
      let store: Store | undefined;
      await persist(async () => store = await Store.open({ backend, workspace: `${scratch}/harmed` }));
      assert(store);
      const harmed = store;
      await persist(() => harmed.create("shop"), "already_exists");
      const digests: string[] = [];
      for (let round = 0; round < 3; round++) {
        let path = "";
        await persist(async () => path = (await harmed.checkout(at("shop"))).path);
        await sqlite3Write(path, `CREATE TABLE t${round} (x); INSERT INTO t${round} VALUES (${round})`);
        digests.push(await dumpDigest(path));
        await persist(() => harmed.checkpoint(at("shop"), `c${round}`), "already_exists");
        await persist(() => harmed.fork(at("shop"), `f${round}`), "already_exists");
      }
      await persist(() => harmed.rollback(at("shop@main@c1"), { safety: false }));
      await persist(() => harmed.destroy(at("shop@f0"), OUTRIGHT), "not_found");
      harmed.close();
      proxy.plan = () => undefined;
      using observer = await Store.open({ backend: inner.backend, workspace: `${scratch}/observer` });
      const names = (await observer.branches("shop")).map(({ branch }) => branch).sort();
      assertEquals(names, ["f1", "f2", "main"]);
      for (const [address, digest] of [["shop", 1], ["shop@f1", 1], ["shop@f2", 2]] as const) {
        assert((await observer.verify(at(address))).ok, address);
        assertEquals(await dumpDigest((await observer.checkout(at(address))).path), digests[digest], address);
      }
    } finally {
      backend.close();
      await Deno.remove(scratch, { recursive: true });
    }
  });
}
