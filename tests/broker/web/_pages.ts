/**
 * A browser on the broker's real listeners: pages, routes, token and checks are the real ones; the engine behind them is
 * in memory and does what a test asks.
 */

import { boundTo } from "../../../broker/engine/bind.ts";
import type { Binding } from "../../../broker/task/binding.ts";
import { existsSync } from "@std/fs/exists";
import { createHash } from "node:crypto";
import { assertEquals } from "@std/assert";
import { type Browser, type BrowserContext, type BrowserContextOptions, chromium, type Page } from "playwright-core";
import type { PendingTask, TaskView } from "../../../broker/api/wire.ts";
import type { BriefFlag, SetupEvidence, SpendFigures, TaskOrder, TrustBrief } from "../../../broker/task/schema.ts";
import type { BriefDatabase } from "../../../broker/task/database_schema.ts";
import { canonicalJson } from "../../../lib/text/canonical_json.ts";
import { buildBrief } from "../../../broker/task/brief.ts";
import { FLAG_CATEGORIES } from "../../../broker/git/flags.ts";
import { type RunningHttp, serveHttp } from "../../../broker/http/serve.ts";
import { BrokerClient } from "../../../broker/client/client.ts";
import type { Json } from "../../../broker/task/value_schemas.ts";
import type { Task } from "../../../broker/task/task.ts";
import { TaskStore } from "../../../broker/task/task_store.ts";
import { webResponse } from "../../../broker/web/web.ts";
import { SmallEngine } from "../http/small_engine.ts";
import { type Clock, systemClock } from "../../../lib/clock.ts";
import { longTest } from "../../support/long.ts";

/** What a page may take to show something, on a machine with much else to do. */
const PAGE_TIMEOUT_MS = 10_000;
/** Where Debian puts it. */
export const CHROMIUM = "/usr/bin/chromium";

/** Why the browser tests cannot run here; undefined when they can. */
const NO_CHROMIUM: boolean = !existsSync(CHROMIUM);

/** What a task at the gate consists of. */
export interface GateOptions {
  diff: string;
  order?: Partial<Omit<TaskOrder, "id">>;
  second_look?: readonly string[];
  /** Databases that the gate is bound to. */
  bound?: Binding["databases"];
  /** Paths of the categories. */
  flags?: readonly BriefFlag[];
  setup?: SetupEvidence;
  databases?: BriefDatabase[];
  spend?: SpendFigures;
  evidence?: Record<string, Json>;
  refused?: TaskView["refused_egress"];
  output?: readonly string[];
  timeout_ms?: number;
}

/** The engine of a test. */
export class PagesEngine extends SmallEngine {
  readonly #gates = new Map<string, GateOptions>();

  /** Begins a task. */
  async begin(order: Partial<Omit<TaskOrder, "id">> = {}): Promise<Task> {
    return await this.tasks.create({
      repo: "https://github.com/acme/orders",
      instruction: "Retry the payment call when the bank answers 503.",
      agent: "agent_a",
      ...order,
    });
  }

  /** Brings a task to the gate. */
  async gate(options: GateOptions): Promise<string> {
    const task = await this.begin(options.order);
    await task.move({ from: "admission", to: "staging" });
    await task.move({ from: "staging", to: "running" });
    for (const text of options.output ?? []) await task.append({ type: "output", channel: "stdout", text });
    if (options.spend !== undefined) await task.append({ type: "spend", spend: options.spend });
    await this.collect(task, options);
    return task.id;
  }

  /** From `running` to the gate. */
  async collect(task: Task, options: GateOptions): Promise<void> {
    const { diff, timeout_ms = 0 } = options;
    await task.move({ from: "running", to: "collecting" });
    for (const [name, value] of Object.entries(options.evidence ?? {})) {
      await task.append({ type: "evidence", name, value });
    }
    await task.append({ type: "evidence", name: "change", value: { shown_sha256: sha256(diff) } });
    this.#gates.set(task.id, options);
    this.diffs.set(task.id, new TextEncoder().encode(diff));
    await task.move({
      from: "collecting",
      to: "awaiting_approval",
      gate: boundTo({
        ...atGate(task.id, sha256(diff), { ...options, brief: await this.brief(task.id) }),
        timeout_ms,
      }, task.head),
    });
  }

  override async view(id: string): Promise<TaskView> {
    return { ...await super.view(id), refused_egress: [...this.#gates.get(id)?.refused ?? []] };
  }

  override pending(): PendingTask[] {
    return super.pending().map((task) => {
      const { spend, sensitive = false } = this.tasks.read(task.id);
      const { files, lines } = sizeOf(this.#gates.get(task.id)?.diff ?? "");
      const { timeout_ms } = task.gate;
      return {
        ...task,
        files_changed: files,
        lines_changed: lines,
        sensitive,
        ...spend === undefined ? {} : { spend },
        ...timeout_ms === 0 ? {} : { expires_in_ms: timeout_ms },
      };
    });
  }

  override async brief(id: string): Promise<TrustBrief> {
    await super.brief(id);
    const { repo, instruction, agent, model, spend } = this.tasks.read(id);
    const gate = this.#gates.get(id);
    const brief = buildBrief({
      task_id: id,
      repo,
      instruction,
      agent,
      runtime: "podman",
      image: "taskd-sandbox:latest",
      image_digest: "sha256:6f3b1e0d9c3f",
      base_commit: "4be1c07d2f9a".padEnd(40, "0"),
      policy_hash: "9d8a3e5512c4".padEnd(64, "0"),
      budget_usd: 2,
      ...model === undefined ? {} : { model },
      ...spend === undefined ? {} : { spend },
      ...gate?.setup === undefined ? {} : { setup: gate.setup },
      ...gate?.databases === undefined ? {} : { databases: gate.databases },
    });
    const flags = (gate?.second_look ?? []).map((category) =>
      gate?.flags?.find((flag) => flag.category === category) ?? flagOf(category, [])
    );
    return {
      ...brief,
      flags,
      missing_evidence: brief.missing_evidence.filter((gap) => !gap.startsWith("what the task has changed")),
    };
  }
}

function sizeOf(diff: string): { files: number; lines: number } {
  return {
    files: diff.match(/^diff --git /gm)?.length ?? 0,
    lines: diff.match(/^(?:\+(?!\+\+ )|-(?!-- ))/gm)?.length ?? 0,
  };
}

/** A flag with the words of its category. */
export function flagOf(category: string, paths: readonly string[]): BriefFlag {
  const reason = (FLAG_CATEGORIES as Record<string, string>)[category] ?? "touches a path of second_look_paths";
  return { category, reason, count: paths.length, paths: paths.map((path) => ({ path })) };
}

/** SHA-256 in hex. */
function sha256(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}

/** A gate that is bound to what is shown; its digest is still to be computed. */
function atGate(
  task_id: string,
  shown_sha256: string,
  { second_look = [], bound = [], brief }: Partial<GateOptions> & { brief: TrustBrief },
) {
  const [oid, some] = ["c".repeat(40), "d".repeat(64)];
  const binding: Binding = {
    format: "taskd approval 1",
    task_id,
    record: { rows: 0, sha256: some },
    repository: "https://example.com/ada/shop",
    base: { commit: oid, tree: oid, branch: "main" },
    tree: oid,
    change_sha256: some,
    commit_message: "Say hello\n",
    pull_request: { title: "Say hello", body_sha256: some, draft: false },
    databases: bound,
    second_look: [...second_look],
    flags_sha256: some,
    brief_sha256: sha256(canonicalJson(brief)),
    shown_sha256,
    policy_sha256: some,
    egress_sha256: some,
    settings_sha256: some,
  };
  return { diff_sha256: "", second_look: [...second_look], binding };
}

/** A spend. */
export function spent(usd: number, more: Partial<SpendFigures> = {}): SpendFigures {
  return {
    usd,
    requests: 14,
    unmetered_requests: 0,
    input_tokens: 182_400,
    output_tokens: 9_312,
    priced: true,
    ...more,
  };
}

/** A browser, a broker, and what went wrong in a page. */
export class Pages {
  readonly engine: PagesEngine;
  readonly #browser: Browser;
  readonly #http: RunningHttp;
  readonly #client: BrokerClient;
  /** What a page's console and its policy said. */
  readonly complaints: string[] = [];

  private constructor(engine: PagesEngine, browser: Browser, http: RunningHttp, client: BrokerClient) {
    this.engine = engine;
    this.#browser = browser;
    this.#http = http;
    this.#client = client;
  }

  static async open(browser: Browser, root: string, clock: Clock = systemClock): Promise<Pages> {
    const engine = new PagesEngine(await TaskStore.open(`${root}/audit`));
    const socket = `${root}/run/taskd.sock`;
    const tokens = `${root}/api-tokens.json`;
    const http = await serveHttp({ engine, socket, tokens, web: webResponse, log: () => {}, clock });
    return new Pages(engine, browser, http, new BrokerClient({ socket }));
  }

  /** `http://127.0.0.1:port`. */
  get origin(): string {
    return new URL(this.#http.ui_url).origin;
  }

  /** An address of a path of the pages that opens them once. */
  async address(path: string): Promise<string> {
    return `${this.origin}${path}${new URL(await this.#client.uiUrl()).hash}`;
  }

  /** A tab of its own that shows a path of the pages; `code` stands in the place of a new one, null for none. */
  async visit(path: string, options: BrowserContextOptions & { code?: string | null } = {}): Promise<Page> {
    const { code, ...context_options } = options;
    const given = `${this.origin}${path}${code === null ? "" : `#code=${code}`}`;
    return await this.open(code === undefined ? () => this.address(path) : given, context_options);
  }

  /** A tab of its own that shows an address, which is asked for each time that it is gone to. */
  async open(address: string | (() => Promise<string>), options: BrowserContextOptions = {}): Promise<Page> {
    const context: BrowserContext = await this.#browser.newContext({
      viewport: { width: 1360, height: 900 },
      locale: "en-GB",
      reducedMotion: "reduce",
      ...options,
    });
    context.setDefaultTimeout(PAGE_TIMEOUT_MS);
    const page = await context.newPage();
    page.on("pageerror", (error) => this.complaints.push(String(error)));
    // Chromium ends what it loads when an address of the machine comes or goes, as those of containers do.
    let changed = false;
    page.on("console", (message) => {
      const text = message.text();
      if (text.endsWith("net::ERR_NETWORK_CHANGED")) changed = true;
      else if (message.type() === "error" || message.type() === "warning") this.complaints.push(text);
    });
    const go = async () => await page.goto(typeof address === "string" ? address : await address());
    await go();
    while (changed) {
      changed = false;
      await page.goto("about:blank");
      await go();
    }
    return page;
  }

  /** The beginning of what every open page shows. */
  texts(): Promise<string[]> {
    const open = this.#browser.contexts().flatMap((context) => context.pages());
    return Promise.all(open.map(async (page) => {
      const text = await page.locator("body").innerText().catch(String);
      return `${page.url()}\n${text.slice(0, 2000)}`;
    }));
  }

  async close(): Promise<void> {
    for (const context of this.#browser.contexts()) await context.close();
    await this.#http.close();
  }
}

let browser: Promise<Browser> | undefined;

/** Ends the browser that the tests of a file share. */
export async function closeBrowser(): Promise<void> {
  await (await browser)?.close();
  browser = undefined;
}

interface PageTestOptions {
  /** What pages may complain of. */
  expected?: RegExp;
  /** The broker's. */
  clock?: Clock;
  define?: (definition: Deno.TestDefinition) => void;
}

/** A test with a browser; at its end no page may have complained, except as `expected` matches. */
export function pageTest(
  name: string,
  run: (pages: Pages) => Promise<void>,
  { expected, clock, define = Deno.test }: PageTestOptions = {},
): void {
  define({
    name: NO_CHROMIUM ? `${name} (ignored: chromium is not installed)` : name,
    ignore: NO_CHROMIUM,
    // The browser is shared by the tests of a file: its process and its pipes outlive each of them.
    sanitizeOps: false,
    sanitizeResources: false,
    async fn() {
      // As root a browser cannot make the namespaces of its own sandbox; it loads nothing here but these pages.
      browser ??= chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox"] });
      const root = await Deno.makeTempDir({ prefix: "taskd-web-" });
      const pages = await Pages.open(await browser, root, clock);
      try {
        await run(pages);
        assertEquals(pages.complaints.filter((text) => expected === undefined || !expected.test(text)), []);
      } catch (error) {
        // What the pages said and show may be the reason.
        if (pages.complaints.length > 0) console.error(pages.complaints);
        for (const text of await pages.texts()) console.error(text);
        throw error;
      } finally {
        await pages.close();
        await Deno.remove(root, { recursive: true });
      }
    },
  });
}

/** The same in the long suite alone. */
export const longPageTest: typeof pageTest = (name, run, options) =>
  pageTest(name, run, { ...options, define: longTest });

/** Keeps a picture for people to look at; tests/output is not kept in git. */
export async function picture(page: Page, name: string, options: { whole?: boolean } = {}): Promise<void> {
  const directory = new URL("../../output/", import.meta.url);
  await Deno.mkdir(directory, { recursive: true });
  const path = new URL(`web_${name}.png`, directory).pathname;
  await page.screenshot({ path, fullPage: options.whole ?? false, animations: "disabled" });
}

/** Runs in the page: ticks a box in one step, since coming into sight may tick it as well. */
export function tick(element: unknown): void {
  const box = element as { checked: boolean; click(): void };
  if (!box.checked) box.click();
}
