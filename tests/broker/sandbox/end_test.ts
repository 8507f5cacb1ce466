import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import { randomHex, systemClock, systemRandom } from "../../../lib/clock.ts";
import { lstatIfPresent } from "../../../lib/fs.ts";
import { TaskdError } from "../../../lib/errors.ts";
import { MAX_LINE_LENGTH } from "../../../broker/sandbox/runtime.ts";
import { DenoRuntime } from "../../../broker/sandbox/deno_runtime.ts";
import { listProcesses, parseProcesses } from "../../../broker/sandbox/processes.ts";
import { VirtualClock } from "../../support/clock.ts";
import { ModelServer } from "./_model_server.ts";
import { allGone, CACHE_DIR, OWNER, Place, processesOf } from "./_sandbox.ts";

const STUBBORN = import.meta.resolve("./_stubborn_agent.ts");
const NOWHERE = "http://127.0.0.1:1";

Deno.test("stop() at any moment leaves no process", async () => {
  for (const moment of ["at once", "while it asks the model", "after its end"]) {
    await using place = new Place();
    await using model = new ModelServer(
      moment === "after its end" ? [{ calls: [["finish", { summary: "x" }]] }] : ["hang"],
    );
    const sandbox = await place.runtime().start(place.spec(model.url));
    if (moment === "while it asks the model") await model.hanging;
    if (moment === "after its end") await sandbox.wait();
    const end = await sandbox.stop();
    assertEquals(end.reason, moment === "after its end" ? "exited" : "stopped", moment);
    assertEquals(await sandbox.stop(), end);
    assertEquals(await processesOf(place.task_id), [], moment);
  }
});

Deno.test("stop() after any of its rows leaves no process and no half of the links", async () => {
  for (let stop_after = 1; stop_after <= 6; stop_after++) {
    await using place = new Place();
    Deno.symlinkSync("target", `${place.work}/link`);
    await using model = new ModelServer([{ calls: [["write", { path: "a.txt", content: "a".repeat(100_000) }]] }]);
    const reached = Promise.withResolvers<void>();
    let rows = 0;
    const onOutput = () => {
      if (++rows === stop_after) reached.resolve();
    };
    const sandbox = await place.runtime().start(place.spec(model.url, { onOutput, max_turns: 1_000_000 }));
    await reached.promise;
    assertEquals((await sandbox.stop()).reason, "stopped");
    assertEquals(await processesOf(place.task_id), []);
    assertEquals(Deno.readLinkSync(`${place.work}/link`), "target");
  }
});

Deno.test("stop() ends a process that is deaf to SIGTERM, also in the middle of a computation", async () => {
  for (const instruction of ["stay", "spin"]) {
    await using place = new Place();
    const ready = Promise.withResolvers<void>();
    const onOutput = () => ready.resolve();
    const sandbox = await place.runtime(STUBBORN).start(place.spec(NOWHERE, { instruction, onOutput }));
    await ready.promise;
    assertEquals(await sandbox.stop(), { reason: "stopped", code: 137, signal: "SIGKILL", output_truncated: false });
    assertEquals(await processesOf(place.task_id), []);
  }
});

Deno.test("the wall clock ends a sandbox", async () => {
  await using place = new Place();
  await using model = new ModelServer(["hang"]);
  const clock = new VirtualClock();
  const runtime = new DenoRuntime({ deno_path: Deno.execPath(), cache_dir: CACHE_DIR, owner: OWNER, clock });
  const sandbox = await runtime.start(place.spec(model.url, { timeout_ms: 1_800_000 }));
  await model.hanging;
  clock.advance(1_799_999);
  await both(place.task_id);
  clock.advance(1);
  assertEquals(await sandbox.wait(), { reason: "timed_out", code: 143, signal: "SIGTERM", output_truncated: false });
  assertEquals(await processesOf(place.task_id), []);
});

Deno.test("an agent ends by itself when its broker is killed", async () => {
  await using place = new Place();
  await using model = new ModelServer(["hang"]);
  await using broker = startBroker(place, { gateway_url: model.url, instruction: "x" });
  await model.hanging;
  await both(place.task_id);
  broker.kill("SIGKILL");
  await allGone(place.task_id);
});

Deno.test("sweep() ends what a killed broker left behind, and nothing else", async () => {
  await using place = new Place();
  await using broker = startBroker(place, { gateway_url: NOWHERE, instruction: "spin", agent_module: STUBBORN });
  // It prints that it is ready.
  await broker.stdout.getReader().read();
  broker.kill("SIGKILL");
  await broker.status;
  const other = new DenoRuntime({
    deno_path: Deno.execPath(),
    cache_dir: CACHE_DIR,
    owner: randomHex(systemRandom, 16),
    clock: new VirtualClock(),
  });
  assertEquals(await other.sweep(new Set()), []);
  assertEquals(await place.runtime().sweep(new Set([place.task_id])), []);
  // The process with the files ends by itself.
  while ((await processesOf(place.task_id)).length > 1) await systemClock.sleep(5);
  assertEquals((await processesOf(place.task_id)).length, 1);
  assertEquals(await place.runtime().sweep(new Set()), [place.task_id]);
  assertEquals(await processesOf(place.task_id), []);
  assertEquals(await place.runtime().sweep(new Set()), []);
});

/** Statements that change something and then never end. */
const ENDLESS =
  "BEGIN; DELETE FROM items; WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x FROM c) SELECT count(*) FROM c";

/** A task with a database whose model asks for `sql` and then for nothing. */
async function withCall(place: Place, sql: string) {
  const databases = { directory: `${place.root}/databases`, files: [{ name: "shop", file: "shop.db" }] };
  Deno.mkdirSync(databases.directory);
  const path = `${databases.directory}/shop.db`;
  const db = new DatabaseSync(path);
  db.exec("CREATE TABLE items (a); INSERT INTO items VALUES (1)");
  db.close();
  const model = new ModelServer([{ calls: [["sql", { database: "shop", statement: sql }]] }, "hang"]);
  const spec = place.spec(model.url);
  const sandbox = await place.runtime().start({
    ...spec,
    workload: { ...spec.workload, databases } as typeof spec.workload,
  });
  return { model, sandbox, path };
}

/** Resolves once both processes of a task run; the second begins with the first output of the agent. */
async function both(task_id: string): Promise<void> {
  while ((await processesOf(task_id)).length < 2) await systemClock.sleep(5);
}

/** Resolves once a statement is under way: its connection has made the log. */
async function begun(path: string): Promise<void> {
  while (lstatIfPresent(`${path}-wal`) === undefined) await systemClock.sleep(5);
}

Deno.test("stop() in the middle of a call ends both processes, and what was not committed is not", async () => {
  await using place = new Place();
  const { model, sandbox, path } = await withCall(place, ENDLESS);
  await using _model = model;
  await begun(path);
  assertEquals((await sandbox.stop()).reason, "stopped");
  assertEquals(await processesOf(place.task_id), []);
  const db = new DatabaseSync(path);
  assertEquals(db.prepare("SELECT count(*) AS n FROM items").get()!.n, 1);
  db.close();
  // Nothing of the call is in the output.
  assertEquals(
    place.lines.every(({ text }) => /^\{"type":"(turn|tool)"/.test(text)),
    true,
    JSON.stringify(place.lines),
  );
});

Deno.test("a sandbox whose process with the files dies ends at once, and wait() says why", async () => {
  for (const moment of ["in a call", "between calls"]) {
    await using place = new Place();
    const { model, sandbox, path } = await withCall(place, moment === "in a call" ? ENDLESS : "SELECT 1");
    await using _model = model;
    await (moment === "in a call" ? begun(path) : model.hanging);
    const files = (await listProcesses()).filter(({ command_line }) =>
      command_line.includes("files_main.ts") && command_line.endsWith(`:${place.task_id}`)
    );
    assertEquals(files.length, 1);
    Deno.kill(files[0]!.pid, "SIGKILL");
    const error = await assertRejects(() => sandbox.wait(), TaskdError);
    assertEquals([error.code, error.message], [
      "sandbox_failed",
      "The process that has the task's files ended with code 137",
    ]);
    assertEquals(await processesOf(place.task_id), []);
  }
});

Deno.test("sweep() kills no process that only mentions a sandbox", async () => {
  await using place = new Place();
  const marker = `--taskd-sandbox=${OWNER}:${place.task_id}`;
  await using bystander = new Deno.Command("/bin/sh", {
    args: ["-c", "read line", `${Deno.execPath()} run --no-prompt`, marker],
    stdin: "piped",
  }).spawn();
  assertEquals(await place.runtime().sweep(new Set()), []);
  await bystander.stdin.close();
  assertEquals((await bystander.status).signal, null);
  assertEquals(parseProcesses("  12    7   0 deno run x\nnoise\n 3 3 1000 \n"), [
    { pid: 12, group: 7, uid: 0, command_line: "deno run x" },
    { pid: 3, group: 3, uid: 1000, command_line: "" },
  ]);
});

Deno.test("a process that eats memory ends itself and not the machine", async () => {
  await using place = new Place();
  const spec = place.spec(NOWHERE, { instruction: "eat", memory_bytes: 64 << 20 });
  const end = await (await place.runtime(STUBBORN).start(spec)).wait();
  assertEquals(end.reason, "exited");
  assert(end.code !== 0);
  assertStringIncludes(JSON.stringify(place.lines), "heap");
});

Deno.test("a flood of output is read to its end and passed on in bounds, without control characters", async () => {
  await using place = new Place();
  const spec = place.spec(NOWHERE, { instruction: "flood", max_output_bytes: 1 << 20 });
  const end = await (await place.runtime(STUBBORN).start(spec)).wait();
  assertEquals(end, { reason: "exited", code: 0, output_truncated: true });
  assertEquals(place.lines[0], { stream: "stdout", text: "\\x1b]0;title\\x07 \ufffd" });
  assert(place.lines.length <= 3);
  for (const { text } of place.lines) assert(text.length <= MAX_LINE_LENGTH + 20);
});

Deno.test("a sandbox whose output cannot be taken is ended, and wait() says why", async () => {
  await using place = new Place();
  const onOutput = () => {
    throw new Error("the disk is full");
  };
  const sandbox = await place.runtime(STUBBORN).start(place.spec(NOWHERE, { instruction: "flood", onOutput }));
  await assertRejects(() => sandbox.wait(), Error, "the disk is full");
  assertEquals(await processesOf(place.task_id), []);
});

Deno.test("a folder of links is put aside and back, and nothing is lost when starting fails", async () => {
  await using place = new Place();
  for (let index = 0; index < 500; index++) Deno.symlinkSync(`target ${index}`, `${place.work}/link${index}`);
  const absent = new DenoRuntime({
    deno_path: `${place.root}/absent`,
    cache_dir: CACHE_DIR,
    owner: OWNER,
    clock: new VirtualClock(),
  });
  const error = await assertRejects(() => absent.start(place.spec(NOWHERE)), TaskdError);
  assertEquals(error.code, "sandbox_failed");
  assertEquals((await assertRejects(() => absent.version(), TaskdError)).code, "sandbox_failed");
  for (let index = 0; index < 500; index++) {
    assertEquals(Deno.readLinkSync(`${place.work}/link${index}`), `target ${index}`);
  }
});

function startBroker(place: Place, options: { gateway_url: string; instruction: string; agent_module?: string }) {
  const { gateway_url, instruction, agent_module } = options;
  const rest = agent_module === undefined ? [] : [agent_module];
  const main = new URL("./_broker.ts", import.meta.url).pathname;
  return new Deno.Command(Deno.execPath(), {
    args: [
      "run",
      "-A",
      "--no-prompt",
      main,
      OWNER,
      place.task_id,
      place.work,
      gateway_url,
      CACHE_DIR,
      instruction,
      ...rest,
    ],
    stdout: "piped",
  }).spawn();
}
