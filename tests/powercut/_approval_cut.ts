/**
 * One cut, or one SIGKILL, on the way from an approval to its end: a task has changed a file and a database, a person
 * approves, and at a step that the seed draws the machine dies. The change has to arrive, on the remote and in the branch
 * store, and once.
 */

import { join } from "@std/path/join";
import { BrokerClient } from "../../broker/client/client.ts";
import { systemClock } from "../../lib/clock.ts";
import { openStore } from "../../lib/store/open.ts";
import { plainGit, writeFiles } from "../broker/git/bench.ts";
import { BrokerProcess } from "../soak/broker_process.ts";
import { readBranches, readTraces } from "../soak/traces.ts";
import { ModelServer } from "../support/model_server.ts";
import { Daemon } from "../support/store_daemon.ts";
import { sqlite3, sqlite3Write } from "../support/writers/oracle.ts";
import { SeededRandom } from "../support/writers/random.ts";
import { Disk } from "./_disk.ts";
import type { CutOptions, CutReport } from "./_store_cut.ts";

/** Rows of the trace from the approval to the end: pushing, the attempt, what became of the data, done. */
const MAX_STEP = 5;
/** How long a task may take to the gate, and an approved one to its end. */
const LIMIT_MS = 60_000;
const RAISE = "UPDATE items SET price = price + 1 WHERE id = 1";

/** Runs one. */
export async function cutApproval(options: CutOptions): Promise<CutReport> {
  await using disk = await Disk.make(options.fs);
  const scratch = await Deno.makeTempDir({ prefix: "powercut-scratch-" });
  await using model = new ModelServer([({ body: { messages } }) => {
    const steps: [string, unknown][] = [
      ["sql", { database: "shop", statement: RAISE }],
      ["write", { path: "hello.txt", content: "hello\n" }],
      ["finish", { summary: "done" }],
    ];
    return { calls: [steps[messages.filter(({ role }) => role === "tool").length]!] };
  }]);
  const cut = new ApprovalCut(disk, scratch, model.url, new SeededRandom(options.seed));
  try {
    return await cut.run();
  } finally {
    await cut.dispose();
    await Deno.remove(scratch, { recursive: true });
  }
}

class ApprovalCut {
  readonly #disk: Disk;
  readonly #scratch: string;
  readonly #model_url: string;
  readonly #random: SeededRandom;
  readonly #client: BrokerClient;
  readonly #bare: string;
  #daemon: Daemon | undefined;
  #broker: BrokerProcess | undefined;

  constructor(disk: Disk, scratch: string, model_url: string, random: SeededRandom) {
    this.#disk = disk;
    this.#scratch = scratch;
    this.#model_url = model_url;
    this.#random = random;
    this.#client = new BrokerClient({ socket: `${scratch}/s/taskd.sock` });
    // On the disk that is cut, or beyond it.
    this.#bare = join(random.chance(0.5) ? disk.directory : scratch, "acme", "app.git");
  }

  get #home(): string {
    return join(this.#disk.directory, "op");
  }

  async run(): Promise<CutReport> {
    await this.#begin();
    const id = await this.#toGate();
    const { gate } = await this.#client.task(id);
    const request = { diff_sha256: gate!.diff_sha256, acknowledge: gate!.second_look };
    const before = this.#rows(id);
    const step = this.#random.between(0, MAX_STEP);
    const late_ms = this.#random.pick([0, 0, 2, 10, 40]);
    const killed = this.#random.chance(0.3);
    let confirmed = false;
    let off = false;
    const approving = this.#client.approve(id, request).then(() => confirmed = !off, () => {});
    const until_ms = systemClock.monotonic() + LIMIT_MS;
    while (this.#rows(id) < before + step && systemClock.monotonic() < until_ms && !this.#isDone(id)) {
      await systemClock.sleep(1);
    }
    await systemClock.sleep(late_ms);
    // A kill loses nothing that the kernel has.
    off = !killed;
    if (!killed) await this.#disk.cut();
    await this.#broker!.kill();
    if (!killed) await this.#daemon!.kill();
    await approving;
    if (!killed) {
      await this.#disk.unmount();
      await this.#disk.mount();
      await this.#startDaemon();
    }
    await this.#startBroker();
    const what = `${killed ? "killed" : "cut"} at row ${step} of the approval, ${late_ms} ms later, approval ${
      confirmed ? "confirmed" : "not answered"
    }`;
    return { what, broken: await this.#compare(id, request, confirmed) };
  }

  async dispose(): Promise<void> {
    await this.#broker?.kill();
    await this.#daemon?.kill();
  }

  async #begin(): Promise<void> {
    const work = join(this.#scratch, "seed");
    await plainGit(this.#scratch, "init", "--quiet", work);
    await writeFiles(work, { "README.md": "# app\n" });
    await plainGit(work, "add", "-A");
    await plainGit(work, "commit", "--quiet", "-m", "first");
    await plainGit(this.#scratch, "clone", "--quiet", "--bare", work, this.#bare);
    await this.#startDaemon();
    const seed = join(this.#disk.directory, "store", "seed.db");
    await sqlite3Write(seed, "CREATE TABLE items(id INTEGER PRIMARY KEY, price); INSERT INTO items VALUES (1, 300)");
    await this.#daemon!.call("create", { db: "shop", from: seed });
    await Deno.mkdir(join(this.#home, ".taskd"), { recursive: true, mode: 0o700 });
    const config = `runtime: deno
default_agent: agent_d
task_budget_usd: 5
approval_timeout: 1h
push_retry_backoff: 50ms
broker:
  socket: ${this.#scratch}/s/taskd.sock
branch_store:
  socket: ${this.#scratch}/store.sock
compat:
  base_url: ${this.#model_url}
  model: test-model
  api_key_env: ENDPOINT_KEY
`;
    await Deno.writeTextFile(join(this.#home, ".taskd", "config.yaml"), config, { mode: 0o600 });
    await this.#disk.settle();
    await this.#startBroker();
  }

  async #startDaemon(): Promise<void> {
    this.#daemon = await Daemon.start({
      store: join(this.#disk.directory, "store"),
      socket: `${this.#scratch}/store.sock`,
      flush_every: "1s",
      snapshot_every: 16,
      reap_every: "1s",
      gc_grace: "0",
      ro_cache_budget: "200K",
    });
  }

  async #startBroker(): Promise<void> {
    const cache_dir = Deno.env.get("DENO_DIR") ?? `${Deno.env.get("HOME")}/.cache/deno`;
    const env = { DENO_DIR: cache_dir, ENDPOINT_KEY: "sk-endpoint-0123456789abcdef" };
    this.#broker = new BrokerProcess({ home: this.#home, env });
    if (!await this.#broker.isServing()) throw new Error(`no broker:\n${this.#broker.lines.slice(-20).join("\n")}`);
  }

  async #toGate(): Promise<string> {
    const { id } = await this.#client.submit({ repo: this.#bare, instruction: "Raise prices", databases: ["shop"] });
    const task = await this.#until(id, ({ stage }) => stage === "awaiting_approval");
    if (task.stage !== "awaiting_approval") throw new Error(`the task did not come to the gate: ${task.reason}`);
    return id;
  }

  async #until(id: string, is: (task: { stage: string }) => boolean) {
    const until_ms = systemClock.monotonic() + LIMIT_MS;
    for (;;) {
      const task = await this.#client.task(id);
      if (is(task) || task.stage === "done" || systemClock.monotonic() > until_ms) return task;
      await systemClock.sleep(20);
    }
  }

  #text(id: string): string {
    return Deno.readTextFileSync(join(this.#home, ".taskd", "audit", `${id}.jsonl`));
  }

  #rows(id: string): number {
    return this.#text(id).split("\n").length - 1;
  }

  #isDone(id: string): boolean {
    return this.#text(id).includes('"to":"done"');
  }

  async #compare(
    id: string,
    request: Parameters<BrokerClient["approve"]>[1],
    confirmed: boolean,
  ): Promise<string[]> {
    const broken: string[] = [];
    const { stage } = await this.#client.task(id);
    if (stage === "awaiting_approval") {
      if (confirmed) broken.push("the approval was confirmed, and the task waits at the gate");
      await this.#client.approve(id, request);
    }
    const { outcome, reason } = await this.#until(id, () => false);
    if (outcome !== "pushed") broken.push(`the approved task is ${outcome ?? "not done"}: ${reason}`);
    await this.#broker!.stop();
    const [trace] = readTraces(join(this.#home, ".taskd", "audit"));
    const branches = await readBranches(this.#bare);
    if (branches.length !== 1) broken.push(`the remote has ${branches.length} branches`);
    else if (branches[0]!.tree !== trace?.tree) broken.push("the remote has another tree than the approved one");
    const path = join(this.#scratch, "export.db");
    using store = await openStore(join(this.#disk.directory, "store"));
    await store.export({ db: "shop", branch: "main" }, path);
    const price = (await sqlite3(path, ["SELECT price FROM items"])).trim();
    if (price !== "301") broken.push(`the database has ${price} in place of 301`);
    return broken;
  }
}
