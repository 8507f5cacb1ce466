/**
 * A broker that is away for a moment, frozen or killed, before a person who reads and decides: the page says so, goes on
 * by itself, and never passes an unknown outcome off as a known one.
 */

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import type { Page } from "playwright-core";
import { textLines } from "../../support/text_lines.ts";
import { ORDINARY } from "./_diffs.ts";
import { closeBrowser, type Pages, pageTest, picture, tick } from "./_pages.ts";

Deno.test.afterAll(closeBrowser);

/** What a page may take to notice a silence: its pulse, and the deadline of that. */
const NOTICED = { timeout: 30_000 };
const EXPECTED = /net::ERR_/;

const approve = (page: Page) => page.getByRole("button", { name: "Approve and push" });
const state = (page: Page, text: string) => page.locator(".bar .state").getByText(text);

async function ready(page: Page): Promise<void> {
  await approve(page).waitFor();
  for (const box of await page.locator(".read input").all()) await box.evaluate(tick);
  await page.getByText("All of it read, all of it ticked.").waitFor();
}

async function gate(pages: Pages): Promise<{ id: string; page: Page }> {
  const id = await pages.engine.gate({ diff: ORDINARY });
  const page = await pages.visit(`/ui/tasks/${id}`);
  await ready(page);
  return { id, page };
}

/** Answers requests to approve in the broker's place; counts them. */
async function intercept(page: Page, carry_out: boolean): Promise<{ sent: number }> {
  const count = { sent: 0 };
  await page.route("**/approve", async (route) => {
    count.sent++;
    if (carry_out) await route.fetch();
    await route.abort("connectionreset");
  });
  return count;
}

/** A broker in another process. */
class Served implements AsyncDisposable {
  readonly #root: string;
  readonly #child: Deno.ChildProcess;
  readonly #lines: AsyncGenerator<string, void, void>;

  private constructor(root: string, child: Deno.ChildProcess) {
    this.#root = root;
    this.#child = child;
    this.#lines = textLines(child.stdout);
  }

  static async start(...words: string[]): Promise<Served> {
    const root = await Deno.makeTempDir({ prefix: "taskd-web-" });
    const script = new URL("./_served.ts", import.meta.url).pathname;
    const args = ["run", "-A", "--quiet", script, root, ...words];
    return new Served(root, new Deno.Command(Deno.execPath(), { args, stdin: "null", stdout: "piped" }).spawn());
  }

  async line(): Promise<string> {
    return (await this.#lines.next()).value ?? "";
  }

  async gate(pages: Pages): Promise<{ id: string; page: Page }> {
    const { address, id } = JSON.parse(await this.line());
    const page = await pages.open(new URL(`/ui/tasks/${id}${new URL(address).hash}`, address).href);
    await ready(page);
    return { id, page };
  }

  kill(signal: Deno.Signal): void {
    this.#child.kill(signal);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      this.#child.kill("SIGKILL");
    } catch {
      // It was killed.
    }
    await this.#child.status;
    await this.#lines.return();
    await Deno.remove(this.#root, { recursive: true });
  }
}

pageTest("a page that begins while the broker is away is there when it answers, without a reload", async (pages) => {
  const page = await pages.visit("/ui/");
  await page.getByText("Nothing waits.").waitFor();
  const id = await pages.engine.gate({ diff: ORDINARY });
  let failed = 0;
  await page.route("**/tasks/**", (route) => failed++ < 4 ? route.abort("connectionrefused") : route.continue());
  await page.locator(`a[href$="${id}"]`).first().click();
  await page.getByRole("heading", { name: "Approve this change?" }).waitFor();
  assert(failed > 4);
}, { expected: EXPECTED });

pageTest("a blip at the gate is shown with the time since, and what was read stays read", async (pages) => {
  const { id, page } = await gate(pages);
  await page.context().setOffline(true);
  await state(page, "No connection to the broker, trying again. Last answer").waitFor(NOTICED);
  assertEquals(await page.locator("#live").innerText(), "No connection to the broker, trying again");
  await picture(page, "no_connection");
  await page.context().setOffline(false);
  await page.locator(".bar .state:empty").waitFor({ state: "attached", ...NOTICED });
  assertEquals(await page.locator("#live").innerText(), "The broker answers again");
  assert(await approve(page).isEnabled());
  await pages.engine.deny(id, "on the command line");
  await page.getByRole("heading", { name: "Denied" }).waitFor(NOTICED);
}, { expected: EXPECTED });

pageTest("an approval whose answer was lost is looked up, and the page shows what became of it", async (pages) => {
  const { id, page } = await gate(pages);
  const count = await intercept(page, true);
  await approve(page).click();
  await page.getByText("The broker gave no answer to “Approve and push”. What became of it: Pushing.").waitFor();
  await page.getByRole("heading", { name: "Pushing" }).waitFor();
  assertEquals([count.sent, pages.engine.tasks.read(id).approval?.by?.via], [1, "page"]);
}, { expected: EXPECTED });

pageTest("an approval that never arrived is said to be on no record, and is the person's to repeat", async (pages) => {
  const { id, page } = await gate(pages);
  const count = await intercept(page, false);
  await approve(page).click();
  await page.getByText("“Approve and push” is not on the record: the task is as it was.").waitFor();
  assertEquals([count.sent, pages.engine.tasks.read(id).stage], [1, "awaiting_approval"]);
  await page.unroute("**/approve");
  assert(await approve(page).isEnabled(), "what was read is still read");
  await approve(page).click();
  await page.getByRole("heading", { name: "Pushing" }).waitFor();
}, { expected: EXPECTED });

pageTest("a denial, a kill and a push without an answer are looked up too", async (pages) => {
  const { page } = await gate(pages);
  await page.route("**/admin/tasks/**", async (route) => {
    if (route.request().method() !== "POST") return await route.continue();
    await route.fetch();
    await route.abort("connectionreset");
  });
  await page.locator(".deny-form button").click();
  await page.getByText("The broker gave no answer to “Deny”. What became of it: Denied.").waitFor();
  const running = await pages.engine.begin();
  await running.move({ from: "admission", to: "staging" });
  await running.move({ from: "staging", to: "running" });
  await page.getByRole("link", { name: "Waiting" }).click();
  await page.locator(`a[href$="${running.id}"]`).first().click();
  await page.getByRole("button", { name: "End this task" }).click();
  await page.getByText("The broker gave no answer to “End this task”. What became of it: Cancelled.").waitFor();
  const approved = await pages.engine.gate({ diff: ORDINARY });
  const { diff_sha256 } = pages.engine.tasks.read(approved).gate!;
  await pages.engine.approve(approved, { diff_sha256, acknowledge: [] });
  await pages.engine.tasks.live(approved)!.move({ from: "pushing", to: "push_failed", reason: "the host is away" });
  await page.getByRole("link", { name: "Waiting" }).click();
  await page.locator(`a[href$="${approved}"]`).first().click();
  await page.getByRole("button", { name: "Push again" }).click();
  await page.getByText("The broker gave no answer to “Push again”. What became of it: Pushing.").waitFor();
}, { expected: EXPECTED });

pageTest(
  "a frozen broker is shown, and a decision meanwhile has an unknown outcome until it goes on",
  async (pages) => {
    await using served = await Served.start();
    const { page } = await served.gate(pages);
    served.kill("SIGSTOP");
    await state(page, "The broker does not answer, trying again. Last answer").waitFor(NOTICED);
    await approve(page).click();
    await page.getByText("“Approve and push”: its outcome is unknown.").waitFor(NOTICED);
    assert(await approve(page).isDisabled(), "while it is unknown nothing can be pressed");
    await picture(page, "unknown_outcome");
    served.kill("SIGCONT");
    await page.getByText("The broker gave no answer to “Approve and push”. What became of it: Pushing.")
      .waitFor(NOTICED);
    await page.getByRole("heading", { name: "Pushing" }).waitFor();
    assertEquals(await served.line(), "approve");
    await page.locator(".bar .state:empty").waitFor({ state: "attached", ...NOTICED });
  },
  { expected: EXPECTED },
);

pageTest("an approval into a broker that is killed is said to be unknown, and is not sent again", async (pages) => {
  await using served = await Served.start("hold");
  const { id, page } = await served.gate(pages);
  let sent = 0;
  page.on("request", (request) => void (request.url().endsWith("/approve") && sent++));
  await approve(page).click();
  assertEquals(await served.line(), "approve");
  served.kill("SIGKILL");
  const unknown = page.getByText("“Approve and push”: its outcome is unknown.");
  await unknown.waitFor(NOTICED);
  assertStringIncludes(await page.locator(".messages").innerText(), `taskd inspect ${id.slice(0, 12)}`);
  await page.getByText("What is shown may be out of date.").waitFor(NOTICED);
  assertStringIncludes(await page.locator("#banner").innerText(), "taskd ui");
  await picture(page, "killed");
  assert(await unknown.isVisible());
  assert(await page.locator(".code").first().isVisible(), "what was read is still there");
  assertEquals(sent, 1);
}, { expected: EXPECTED });
