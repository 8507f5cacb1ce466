import { assert, assertEquals, assertRejects } from "@std/assert";
import { InvalidConfig } from "../../../broker/settings/invalid_config.ts";
import { TaskdError } from "../../../lib/errors.ts";
import type { PendingTask } from "../../../broker/api/wire.ts";
import { BrokerBench, ENDPOINT_KEY, until } from "./bench.ts";
import { writeProgram } from "../../support/programs.ts";
import { longTest } from "../../support/long.ts";

Deno.test("a second broker of one home is refused, and the first goes on", async () => {
  await using bench = await BrokerBench.start();
  const first = bench.broker;
  const refused = await assertRejects(() => bench.serve(), TaskdError);
  assertEquals(refused.code, "broker_running");
  assertEquals(first.engine.health().ok, true);
  assertEquals((await bench.pushed()).outcome, "pushed");
});

// conformance: b2.effect.broker.addr
Deno.test("a start that fails leaves no lock, no port and no socket behind", async () => {
  await using bench = await BrokerBench.prepare();
  bench.configure("task_timeout: never\n");
  await assertRejects(() => bench.serve(), InvalidConfig);

  // The last step fails: everything before has to be taken back.
  const taken = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const text = Deno.readTextFileSync(`${bench.home}/.taskd/config.yaml`).replace("task_timeout: never\n", "");
  Deno.writeTextFileSync(
    `${bench.home}/.taskd/config.yaml`,
    text.replace("broker:\n", `broker:\n  addr: 127.0.0.1:${taken.addr.port}\n`),
  );
  await assertRejects(() => bench.serve(), TaskdError);
  taken.close();
  assertEquals(await Deno.stat(`${bench.root}/s/taskd.sock`).then(() => true, () => false), false);

  const broker = await bench.serve();
  assertEquals(broker.addr, `127.0.0.1:${taken.addr.port}`);
});

// conformance: b5.credentials
Deno.test("no key and no token of a task stands in anything that is written", async () => {
  await using bench = await BrokerBench.start();
  const done = await bench.pushed();
  assertEquals(done.outcome, "pushed");
  const authorizations = bench.model.asked.map(({ authorization }) => authorization);
  assertEquals(new Set(authorizations), new Set([`Bearer ${ENDPOINT_KEY}`]));
  const written = await bench.written();
  assert(written.includes(done.id));
  assertEquals(written.includes(ENDPOINT_KEY), false);
  assertEquals(/taskd-[0-9a-f]{64}/.test(written), false);
});

// conformance: b2.audit_modes b2.effect.audit_root
Deno.test("files of a task are for its owner alone", async () => {
  await using bench = await BrokerBench.start();
  await bench.pushed();
  const audit = `${bench.home}/.taskd/audit`;
  assertEquals((await Deno.stat(audit)).mode! & 0o777, 0o700);
  const names: string[] = [];
  for await (const { name, isFile } of Deno.readDir(audit)) {
    if (!isFile) continue;
    names.push(name.replace(/^[0-9a-f]{32}/, "ID"));
    assertEquals((await Deno.stat(`${audit}/${name}`)).mode! & 0o777, 0o600, name);
  }
  assertEquals(names.filter((name) => name.startsWith("ID")).sort(), ["ID.brief.json", "ID.diff", "ID.jsonl"]);
});

Deno.test("a starting broker removes what a killed one had half written", async () => {
  await using bench = await BrokerBench.prepare();
  const paths = ["audit/a.diff", "audit/global/ledger.jsonl", "queue/b.json"].map((path) => {
    return `${bench.home}/.taskd/${path}.0123456789abcdef.tmp`;
  });
  for (const path of paths) {
    await Deno.mkdir(path.slice(0, path.lastIndexOf("/")), { recursive: true });
    await Deno.writeTextFile(path, "half");
  }
  await bench.serve();
  for (const path of paths) await assertRejects(() => Deno.stat(path), Deno.errors.NotFound);
});

Deno.test("without a terminal every entry of the log is one JSON object", async () => {
  await using bench = await BrokerBench.start();
  const { id } = await bench.pushed();
  const entries = bench.lines.map((line) => JSON.parse(line));
  const stages = entries.filter(({ event, task_id }) => event === "task_stage" && task_id === id);
  assertEquals(stages.at(-1)?.outcome, "pushed");
  assert(entries.some(({ event }) => event === "broker_started"));
});

longTest("pruning removes what ended before, with its files, and nothing else", async () => {
  await using bench = await BrokerBench.start();
  const old = await bench.pushed();
  const waits = await bench.submit();
  await bench.reaches(waits.id, "awaiting_approval");
  const before_ms = Date.parse(old.updated_at) + 60_000;
  for (const dry_run of [true, false]) {
    assertEquals(bench.engine.tasks.size, 2);
    const { pruned, mirrors } = await bench.engine.prune({ before_ms, dry_run });
    assertEquals([pruned, mirrors.length], [[old.id], 1]);
  }
  assertEquals((await bench.engine.prune({ before_ms, dry_run: true })).mirrors, []);
  const left = [...Deno.readDirSync(`${bench.home}/.taskd/audit`)].filter(({ name }) => name.startsWith(old.id));
  assertEquals([left, bench.engine.tasks.list().map(({ id }) => id)], [[], [waits.id]]);
});

// conformance: b2.effect.notifications b6.notification
longTest("a task at the gate is announced on the desktop, unless notifications are off", async () => {
  for (const config of ["", "notifications: false\n"]) {
    const folder = await Deno.makeTempDir();
    try {
      const path = `${folder}/notify`;
      await writeProgram(path, `#!/bin/bash\necho "$@" >> ${folder}/shown\n`);
      const bench = await BrokerBench.start({ config, programs: { "notify-send": [path] } });
      await using _ = bench;
      const { id } = await bench.submit();
      await bench.reaches(id, "awaiting_approval");
      const shown = () => Deno.readTextFile(`${folder}/shown`).catch(() => "");
      if (config === "") await until(async () => (await shown()).includes("Say hello"));
      await bench.broker.stop();
      assertEquals((await shown()).includes("Say hello"), config === "");
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  }
});

Deno.test("a task that a queue begins goes the whole way, and the queue says so", async () => {
  await using bench = await BrokerBench.start();
  const item = await bench.engine.enqueue({ repo: bench.git.origin, instruction: "Say hello" });
  await until(() => bench.engine.pending().length > 0);
  const [{ id, gate }] = bench.engine.pending() as [PendingTask];
  await bench.engine.approve(id, { diff_sha256: gate.diff_sha256, acknowledge: [] });
  assertEquals((await bench.reaches(id)).outcome, "pushed");
  await until(() => bench.engine.queue().find((queued) => queued.id === item.id)?.state === "completed");
  assertEquals((await bench.engine.view(id)).queue_id, item.id);
});
