/**
 * The shipped alerts of the branch store in real incidents: a daemon goes through each, is scraped all along, and
 * promtool says which alerts its series raise.
 */

import { existsSync } from "@std/fs/exists";
import { walkSync } from "@std/fs/walk";
import { assertEquals } from "@std/assert";
import { parse } from "@std/yaml/parse";
import { DatabaseSync } from "node:sqlite";
import { systemClock } from "../../lib/clock.ts";
import { s3Access } from "../../lib/backend/s3_permissions.ts";
import { openStore } from "../../lib/store/open.ts";
import { HttpDaemon, type HttpDaemonOptions } from "./_http.ts";
import { Place } from "./daemon_process.ts";
import { longTest, scaledTest } from "../support/long.ts";
import { mountOver, whyNotMountable } from "../support/mounts.ts";
import { startMinio } from "../support/minio.ts";
import { PROMTOOL, Recording } from "../support/recording.ts";

const missing = existsSync(PROMTOOL) ? "" : " (ignored: promtool is not installed)";
const unmountable = missing || await whyNotMountable("tmpfs");

/** Every alert of the branch store, in the order of its file. */
const ALERTS = (parse(
  await Deno.readTextFile(new URL("../../docs/monitoring/alerts.yml", import.meta.url)),
) as { groups: { rules: { alert: string }[] }[] }).groups.flatMap(({ rules }) => rules.map(({ alert }) => alert));

/** Scrapes before and during what happens, each a minute apart in the series: as long as the slowest rule waits. */
const BEFORE = 10;
const DURING = 65;
const PER_SECOND = 20;

interface Incident {
  http: HttpDaemon;
  place: Place;
  checkout: string;
}

/** Commits a row. */
function commit({ checkout }: Incident): void {
  const db = new DatabaseSync(checkout, { timeout: 5_000 });
  try {
    db.exec("CREATE TABLE IF NOT EXISTS t(v); INSERT INTO t VALUES(randomblob(20000))");
  } finally {
    db.close();
  }
}

/** Takes a daemon with a session through an incident; returns the alerts that it raises. */
async function raised(
  happens: (incident: Incident) => Promise<unknown> | unknown,
  options: {
    setUp?: (place: Place) => Promise<AsyncDisposable>;
    daemon?: HttpDaemonOptions;
    quiet?: boolean;
    per_second?: number;
  } = {},
): Promise<string[]> {
  const { per_second = PER_SECOND } = options;
  await using place = new Place();
  await using _around = await options.setUp?.(place);
  await using http = await HttpDaemon.start(place, { flush_every_ms: 50, reap_every_ms: 50, ...options.daemon });
  using client = await http.daemon.connect();
  await client.call("create", { db: "app" });
  const { checkout } = await client.call("open", { db: "app" });
  const incident = { http, place, checkout };
  const recording = new Recording("taskd", per_second);
  const scrape = async (times: number) => {
    for (let time = 0; time < times; time++) {
      if (time % 5 === 0 && !options.quiet) commit(incident);
      const texts = await Promise.all(
        ["/metrics", "/metrics/more"].map((path) =>
          http.fetch(path, { signal: AbortSignal.timeout(5_000) }).then((answer) => answer.text(), () => undefined)
        ),
      );
      recording.add(texts[0] === undefined ? undefined : texts.join("\n"));
      await systemClock.sleep(1_000 / per_second);
    }
  };
  await scrape(BEFORE);
  await happens(incident);
  await scrape(DURING);
  return await recording.firing("alerts.yml", ALERTS);
}

/** Writes to a file until its disk is full. */
function fill(path: string): void {
  const file = Deno.openSync(path, { create: true, write: true });
  try {
    for (let size = 1 << 20; size >= 1; size >>= 1) {
      try {
        for (;;) if (file.writeSync(new Uint8Array(size)) < size) break;
      } catch {
        // No more of this size fits.
      }
    }
  } finally {
    file.close();
  }
}

/** A test that promtool is needed for; the default suite has the ones about health and about what is not durable. */
function incidentTest(name: string, fn: () => Promise<void>, { why = missing, short = false } = {}): void {
  (short ? scaledTest : longTest)({ name: name + why, ignore: why !== "", fn });
}

incidentTest("a healthy daemon raises no alert", async () => {
  assertEquals(await raised(() => {}), []);
}, { short: true });

incidentTest("a daemon that is gone raises TaskdDown and no other", async () => {
  assertEquals(await raised(({ http }) => http.daemon.stop("SIGKILL")), ["TaskdDown"]);
});

incidentTest("a session whose lease was taken during a pause raises what is not durable", async () => {
  const alerts = await raised(async ({ place }) => {
    using store = await openStore(place.store, { holder: "other" });
    const lease = { holder: "other:0123456789abcdef:01234567", expires_at: "2099-01-01T00:00:00.000Z" };
    await store.context.refs.update("app", "main", (ref) => ({ ...ref, epoch: ref.epoch + 1, lease }));
  });
  assertEquals(alerts, ["TaskdFlushesFail", "TaskdSessionFailed", "TaskdBranchNotDurable"]);
});

incidentTest("a damaged ref raises that garbage is not collected", async () => {
  const alerts = await raised(async ({ place, http }) => {
    using client = await http.daemon.connect();
    await client.call("fork", { db: "app", new_branch: "side" });
    await Deno.writeTextFile(`${place.store}/refs/app/side.json`, "{");
  });
  assertEquals(alerts, ["TaskdGarbageNotCollected", "TaskdJanitorFails"]);
});

incidentTest("an object that rots raises that the store is damaged", async () => {
  const alerts = await raised(async ({ place }) => {
    const snapshot = [...walkSync(`${place.store}/data`)].find(({ name }) => name.startsWith("snapshot-"))!;
    const bytes = await Deno.readFile(snapshot.path);
    await Deno.writeFile(snapshot.path, bytes.with(60, bytes[60]! ^ 1));
  }, { daemon: { scrub_every_ms: 1_000 } });
  assertEquals(alerts, ["TaskdStoreDamaged"]);
}, { short: true });

incidentTest("a janitor that stands still raises TaskdJanitorStopped", async () => {
  assertEquals(await raised(() => {}, { daemon: { reap_every_ms: 3_600_000 } }), ["TaskdJanitorStopped"]);
});

incidentTest("a disk that is full raises that flushes fail", async () => {
  const alerts = await raised(async (incident) => {
    const { place, http } = incident;
    const failed = async () => (await http.metrics()).value("flush_total", { kind: "auto", result: "error" })! > 0;
    // Until there is a commit that came before the disk was full, and its flush after.
    for (; !await failed(); await systemClock.sleep(200)) {
      await Deno.remove(`${place.store}/ballast`).catch(() => {});
      commit(incident);
      fill(`${place.store}/ballast`);
    }
  }, {
    setUp: async (place) => {
      await Deno.mkdir(place.store);
      return await mountOver(place.store, 24);
    },
    quiet: true,
  });
  assertEquals(alerts.includes("TaskdFlushesFail"), true, alerts.join());
}, { why: unmountable });

incidentTest("a bucket that is gone raises what depends on it", async () => {
  await using server = await startMinio();
  const { endpoint, bucket, credentials } = server;
  const store = `s3://${bucket}/${crypto.randomUUID()}`;
  const options = { endpoint, credentials };
  const access = { ...s3Access({ bucket, endpoint }, { home: "/root", env: (name) => Deno.env.get(name) }) };
  await using place = new Place();
  const daemon = { store, workspace: `${place.directory}/work`, s3: { options, access } };
  const alerts = await raised(() => Deno.kill(server.pid, "SIGKILL"), { daemon, per_second: 1 });
  const expected = ["TaskdFlushesFail", "TaskdGarbageNotCollected", "TaskdJanitorFails"];
  assertEquals(expected.filter((alert) => !alerts.includes(alert)), []);
});
