/**
 * Every page in a real browser: live lists, a task at work, the history; on a phone, in the dark, for those who do not
 * see them, and with as much as a page can get.
 */

import axe from "axe-core";
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import type { Page } from "playwright-core";
import { newFile, ORDINARY } from "./_diffs.ts";
import { closeBrowser, flagOf, longPageTest, type Pages, pageTest, picture, spent, tick } from "./_pages.ts";
import { tracePath } from "../../../broker/task/trace.ts";
import { longTest } from "../../support/long.ts";

Deno.test.afterAll(closeBrowser);

const PHONE = { viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, hasTouch: true, isMobile: true };

/** Tasks as they come together in a month. */
async function fill(pages: Pages): Promise<string> {
  const { engine } = pages;
  for (const [index, agent] of ["agent_a", "agent_b", "agent_a", "agent_d"].entries()) {
    const id = await engine.gate({
      diff: ORDINARY,
      spend: spent(0.31 + index * 0.4, index === 3 ? { unmetered_requests: 2, priced: false } : {}),
      order: { agent, repo: `https://github.com/acme/${index % 2 === 0 ? "orders" : "ledger"}` },
    });
    if (index === 1) await engine.deny(id, "another way");
    else await engine.approve(id, { diff_sha256: engine.tasks.read(id).gate!.diff_sha256, acknowledge: [] });
  }
  const running = await engine.begin({
    instruction: "Port the importer to the new client",
    repo: "https://github.com/acme/ledger",
  });
  await running.move({ from: "admission", to: "staging" });
  await running.move({ from: "staging", to: "running" });
  await running.append({ type: "output", channel: "setup", text: "added 214 packages in 9 s\n" });
  for (let step = 1; step <= 12; step++) {
    await running.append({ type: "output", channel: "stdout", text: `Reading src/import/part_${step}.ts\n` });
  }
  await running.append({ type: "output", channel: "stderr", text: "warning: two callers still use the old client\n" });
  engine.live.set(running.id, spent(0.1874));
  await engine.gate({
    diff: ORDINARY,
    second_look: ["ci_files", "lockfile"],
    flags: [flagOf("ci_files", [".github/workflows/ci.yml"]), flagOf("lockfile", ["package-lock.json"])],
    spend: spent(0.4213),
    timeout_ms: 7_200_000,
    order: { sensitive: true },
  });
  return running.id;
}

/** Every page, at its address, once it is there. */
async function everyPage(pages: Pages, show: (page: Page, name: string) => Promise<void>, options = {}): Promise<void> {
  const running = await fill(pages);
  const waiting = pages.engine.pending()[0]!.id;
  for (
    const [name, path, part] of [
      ["pending", "/ui/", ".card"],
      ["task", `/ui/tasks/${running}`, ".o-stderr"],
      ["gate", `/ui/tasks/${waiting}`, ".approve"],
      ["history", "/ui/history", ".tasks a"],
    ] as const
  ) {
    const page = await pages.visit(path, options);
    await page.locator(part).first().waitFor();
    await show(page, name);
    await page.context().close();
  }
}

pageTest("no page has a serious fault for those who do not see it, or do not use a mouse", async (pages) => {
  for (const colorScheme of ["light", "dark"] as const) {
    await everyPage(pages, async (page, name) => {
      await page.evaluate(axe.source);
      const found = await page.evaluate<{ id: string; impact: string; nodes: { html: string }[] }[]>(
        "axe.run().then(({ violations }) => violations.map(({ id, impact, nodes }) => ({ id, impact, nodes: nodes.map(({ html }) => ({ html })) })))",
      );
      const serious = found.filter(({ impact }) => impact === "serious" || impact === "critical");
      assertEquals(serious.map(({ id, nodes }) => [id, nodes.slice(0, 3)]), [], `${name}, ${colorScheme}`);
    }, { colorScheme });
  }
}, { define: longTest });

longPageTest("on a phone no page is wider than the screen", async (pages) => {
  await everyPage(pages, async (page, name) => {
    assert(await page.evaluate<number>("document.documentElement.scrollWidth") <= 390, name);
    await picture(page, `phone_${name}`);
    if (name !== "gate") return;
    await page.locator("#file-1").scrollIntoViewIfNeeded();
    await page.locator("#file-1 .code").waitFor();
    assert(await page.evaluate<number>("document.documentElement.scrollWidth") <= 390, "with a diff in sight");
    await picture(page, "phone_diff");
  }, PHONE);
});

longPageTest("pages are light or dark as the reader's system is", async (pages) => {
  for (const colorScheme of ["light", "dark"] as const) {
    const page = await pages.visit("/ui/", { colorScheme });
    const ground = await page.evaluate<string>("getComputedStyle(document.body).backgroundColor");
    assertEquals(ground, colorScheme === "light" ? "rgb(251, 251, 250)" : "rgb(19, 20, 22)");
  }
});

pageTest("pictures of every page", async (pages) => {
  for (const colorScheme of ["light", "dark"] as const) {
    await everyPage(pages, async (page, name) => {
      await picture(page, `${name}_${colorScheme}`);
      if (name !== "gate") return;
      await page.locator("#file-1").focus();
      await page.keyboard.press("j");
      await page.keyboard.press("j");
      await page.locator("#file-1 .code").waitFor();
      await picture(page, `diff_${colorScheme}`);
      await page.keyboard.press("?");
      await picture(page, `help_${colorScheme}`);
    }, { colorScheme });
  }
}, { define: longTest });

longPageTest("what comes to the gate shows up by itself, and leaves when it is decided", async (pages) => {
  const page = await pages.visit("/ui/");
  await page.getByText("Nothing waits.").waitFor();
  const id = await pages.engine.gate({ diff: ORDINARY });
  await page.locator(".card").waitFor();
  assertEquals(await page.title(), "1 waiting · taskd");
  await pages.engine.deny(id, "no");
  await page.getByText("Nothing waits.").waitFor();
});

pageTest("a task is followed from its first stage to the gate", async (pages) => {
  const task = await pages.engine.begin();
  const page = await pages.visit(`/ui/tasks/${task.id}`);
  await page.getByRole("heading", { name: "Accepted" }).waitFor();
  await task.move({ from: "admission", to: "staging" });
  await page.getByRole("heading", { name: "Cloning" }).waitFor();
  await task.move({ from: "staging", to: "running" });
  await task.append({ type: "output", channel: "stdout", text: "Reading the code" });
  await page.locator(".output").getByText("Reading the code").waitFor();
  pages.engine.spend(task.id, spent(0.05));
  await page.getByText("$0.0500").waitFor();
  assertEquals(
    await page.locator(".timeline li").allInnerTexts().then((all) => all.map((text) => text.split("\n")[0])),
    [
      "Accepted",
      "Cloning",
      "Agent at work",
    ],
  );
  await pages.engine.collect(task, { diff: ORDINARY });
  await page.getByRole("heading", { name: "Approve this change?" }).waitFor();
  assertEquals(await page.locator("#live").innerText(), "Waiting for approval");
});

pageTest("what a page reads is asked again when the machine's network ends it", async (pages) => {
  const page = await pages.visit("/ui/");
  const id = await pages.engine.gate({ diff: ORDINARY });
  const ended = new Set<string>();
  await page.route("**/tasks/**", (route) => {
    const url = route.request().url();
    if (ended.has(url)) return route.continue();
    ended.add(url);
    return route.abort("internetdisconnected");
  });
  await page.locator(`a[href$="${id}"]`).first().click();
  await page.getByRole("heading", { name: "Approve this change?" }).waitFor();
  assert(ended.size > 0);
}, { expected: /ERR_INTERNET_DISCONNECTED/ });

pageTest("a trace that cannot be read is said on the task's page, which does not ask again", async (pages) => {
  const { engine } = pages;
  const task = await engine.begin();
  await task.move({ from: "admission", to: "staging" });
  await task.move({ from: "staging", to: "running" });
  for (let n = 0; n < 50; n++) await task.append({ type: "output", channel: "stdout", text: `${n}` });
  const path = tracePath(engine.tasks.audit_root, task.id);
  await Deno.writeTextFile(path, (await Deno.readTextFile(path)).replace('"text":"45"', '"text":"xx"'));
  let asked = 0;
  const page = await pages.visit("/ui/");
  page.on("request", (request) => void (request.url().endsWith("/events") && asked++));
  await page.getByRole("heading", { name: "Waiting for approval" }).waitFor();
  await page.goto(`${pages.origin}/ui/tasks/${task.id}`);
  const alert = page.locator("[role=alert]");
  await alert.waitFor();
  assertStringIncludes(await alert.innerText(), "is altered");
  await page.waitForTimeout(1_200);
  assertEquals(asked, 1);
}, { define: longTest });

pageTest("what a task has spent never goes down while rows come that say less than the lease", async (pages) => {
  const task = await pages.engine.begin();
  await task.move({ from: "admission", to: "staging" });
  await task.move({ from: "staging", to: "running" });
  pages.engine.live.set(task.id, spent(0.05));
  const page = await pages.visit(`/ui/tasks/${task.id}`);
  await page.getByText("$0.0500").waitFor();
  // The stream is there, and has nothing more to tell of the lease.
  await page.locator(".timeline").getByText("Agent at work").waitFor();
  pages.engine.spend(task.id, spent(0.06));
  await page.getByText("$0.0600").waitFor();
  await task.append({ type: "spend", spend: spent(0.01, { requests: 3 }) });
  await task.append({ type: "output", channel: "stdout", text: "Reading the code" });
  await page.locator(".output").getByText("Reading the code").waitFor();
  assertEquals(await page.locator(".spent").innerText().then((text) => text.split("\n").filter(Boolean)), [
    "Spent",
    "$0.0600",
    "14 requests",
  ]);
});

pageTest("a task that runs can be ended, and one that has ended be run again", async (pages) => {
  const task = await pages.engine.begin();
  await task.move({ from: "admission", to: "staging" });
  await task.move({ from: "staging", to: "running" });
  const page = await pages.visit(`/ui/tasks/${task.id}`);
  await page.getByRole("button", { name: "End this task" }).click();
  await page.getByRole("heading", { name: "Cancelled" }).waitFor();
  await page.getByRole("button", { name: "Run it again" }).click();
  await page.getByRole("heading", { name: "Accepted" }).waitFor();
  const [again] = pages.engine.tasks.list({ limit: 1 });
  assertEquals(again!.retry_of, task.id);
  assertEquals(page.url(), `${pages.origin}/ui/tasks/${again!.id}`);
});

longPageTest("a change that waits to land says why, and is pushed again from its page", async (pages) => {
  const id = await pages.engine.gate({ diff: "diff --git a/a b/a\n" });
  const task = pages.engine.tasks.live(id)!;
  pages.engine.base_notes.push("main has moved on by 1 commit \u202e");
  const gate = await pages.visit(`/ui/tasks/${id}`);
  await gate.getByText("main has moved on by 1 commit").waitFor();
  await gate.close();
  await pages.engine.approve(id, { diff_sha256: task.record.gate!.diff_sha256, acknowledge: [] });
  const page = await pages.visit(`/ui/tasks/${id}`);
  await page.getByRole("heading", { name: "Pushing" }).waitFor();
  await task.move({ from: "pushing", to: "push_failed", reason: "the code host answers 503" });
  await page.getByRole("heading", { name: "Push failed, waits" }).waitFor();
  await page.getByText("the code host answers 503").first().waitFor();
  await page.getByRole("button", { name: "Give it up" }).waitFor();
  await page.getByRole("button", { name: "Push again" }).click();
  await page.getByRole("heading", { name: "Pushing" }).waitFor();
  const pushed = { branch: `agent/${id}`, commit: "c".repeat(40) };
  await task.move({ from: "pushing", to: "data_waits", reason: "shop@main has moved", pushed });
  await page.getByRole("heading", { name: "Pushed, data waits" }).waitFor();
  await page.getByText(`agent/${id}`).first().waitFor();
});

// conformance: b2.spend.source b2.spend.agent
pageTest("the history adds up what was metered, and says what was not", async (pages) => {
  await fill(pages);
  const claimed = await pages.engine.begin({ instruction: "Claims much" });
  await claimed.append({ type: "claimed", usd: 99 });
  const page = await pages.visit("/ui/history");
  await page.locator(".tasks a").first().waitFor();
  const sum = page.locator(".summary");
  assertStringIncludes(await sum.innerText(), "at least $4.25");
  assertStringIncludes(await sum.innerText(), "2 requests unmetered");
  assertStringIncludes(await page.locator(".tasks").innerText(), "agent-reported");
  await page.getByLabel("Outcome").selectOption("denied");
  assertEquals(await page.locator(".tasks tbody tr").count(), 1);
  assertStringIncludes(await sum.innerText(), "$0.71");
  await page.getByLabel("Outcome").selectOption("");
  await page.getByLabel("Repository").selectOption({ label: "github.com/acme/ledger" });
  assertEquals(await page.locator(".tasks tbody tr").count(), 3);
  assertStringIncludes(await page.getByRole("img").getAttribute("aria-label") ?? "", "Cost per day over 30 days");
});

pageTest("keys are listed, and can be switched off", async (pages) => {
  const page = await pages.visit("/ui/");
  await page.getByText("Nothing waits.").waitFor();
  await page.keyboard.press("?");
  await page.getByRole("dialog").waitFor();
  await page.getByLabel("Use these keys").uncheck();
  await page.keyboard.press("Escape");
  await page.keyboard.press("h");
  assertEquals(page.url(), `${pages.origin}/ui/`);
  await page.keyboard.press("?");
  await page.getByLabel("Use these keys").check();
  await page.keyboard.press("Escape");
  await page.keyboard.press("h");
  await page.getByRole("heading", { name: "History" }).waitFor();
});

pageTest("all of an ordinary diff can be searched for, and is printed", async (pages) => {
  const lines = Array.from({ length: 1_200 }, (_, index) => `line ${index}`);
  const id = await pages.engine.gate({ diff: newFile("a.txt", lines) + newFile("b.txt", [...lines, ...lines]) });
  const page = await pages.visit(`/ui/tasks/${id}`);
  await page.locator("#file-0 .chunk.filled").nth(5).waitFor({ state: "attached" });
  await page.locator("#file-1 .fold").click();
  await page.evaluate("dispatchEvent(new Event('beforeprint'))");
  assertEquals(await page.locator("#file-1 .line").count(), 2_400);
});

pageTest("a diff of 4 MiB in 100,000 lines is shown in pieces, and its end can be reached", async (pages) => {
  const lines = Array.from({ length: 100_000 }, (_, index) => `  value_${index}: ${"x".repeat(26)}`);
  const id = await pages.engine.gate({ diff: newFile("data/large.yaml", lines) + ORDINARY });
  const page = await pages.visit(`/ui/tasks/${id}`);
  await page.getByRole("heading", { name: "Approve this change?" }).waitFor();
  await page.locator("#file-0 .fold").click();
  await page.locator("#file-0 .code").first().waitFor();
  const rows = await page.locator(".line").count();
  assert(rows < 3_000, `${rows} rows for what is in sight`);
  await page.locator("#file-0 .file-end").scrollIntoViewIfNeeded();
  await page.getByText("value_99999").waitFor();
  assertEquals(await page.locator("#file-0 .chunk").count(), 500);
});

pageTest("20,000 files are read as the reader goes, with few nodes in the document", async (pages) => {
  const files = Array.from({ length: 20_000 }, (_, at) => newFile(`src/part_${at % 200}/file_${at}.ts`, [`// ${at}`]));
  const id = await pages.engine.gate({ diff: files.join("") });
  const page = await pages.visit(`/ui/tasks/${id}`);
  await page.locator("#file-0 .code").waitFor();
  const nodes = () => page.evaluate("document.getElementsByTagName('*').length") as Promise<number>;
  let most = await nodes();
  // Without the focus, which would keep it in the document.
  await page.locator("#file-0 .fold").dispatchEvent("click");
  await page.locator("#file-1 .read input").evaluate(tick);
  for (const part of [1 / 2, 1]) {
    await page.evaluate(`scrollTo(0, document.documentElement.scrollHeight * ${part})`);
    await page.locator("#file-0").waitFor({ state: "detached" });
    most = Math.max(most, await nodes());
  }
  await page.getByText("// 19999").waitFor();
  // The list reaches its end, and a file in the middle is one press away.
  await page.locator(".file-list").evaluate((list) => {
    const element = list as unknown as { scrollTop: number; scrollHeight: number };
    element.scrollTop = element.scrollHeight / 2;
  });
  const name = page.locator(".file-list li button").getByText("file_10000.ts");
  await name.click();
  await page.locator("#file-10000.is-read").waitFor();
  most = Math.max(most, await nodes());
  assert(most <= 5_000, `${most} elements`);
  // What was read or closed and has left the document is so when it comes back.
  await page.evaluate("scrollTo(0, 0)");
  await page.locator("#file-1.is-read").waitFor();
  await page.locator("#file-0.closed").waitFor();
  assertStringIncludes(await page.locator(".still-open").innerText(), "of 20,000 files not read");
});
