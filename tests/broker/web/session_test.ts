/**
 * Sessions of the pages in a real browser: what a reload keeps, what the disk keeps, and how a session ends.
 */

import { assert, assertEquals } from "@std/assert";
import { walk } from "@std/fs/walk";
import { chromium, type Page } from "playwright-core";
import { type Clock, systemClock } from "../../../lib/clock.ts";
import { beginSession, codeOf } from "../../support/page_session.ts";
import { ORDINARY } from "./_diffs.ts";
import { CHROMIUM, closeBrowser, pageTest, picture, tick } from "./_pages.ts";

Deno.test.afterAll(closeBrowser);

const HOUR_MS = 3_600_000;
const NOTICED = { timeout: 30_000 };

const tokenOf = (page: Page) => page.evaluate<string>("sessionStorage.getItem('taskd.session')");

/** A clock whose wall can jump. */
function jumpingClock(): Clock & { jump(ms: number): void } {
  let offset_ms = 0;
  return { ...systemClock, now: () => Date.now() + offset_ms, jump: (ms) => void (offset_ms += ms) };
}

pageTest("a reload goes on with the session, and so does its address opened again in the tab", async (pages) => {
  const id = await pages.engine.gate({ diff: ORDINARY });
  const address = await pages.address(`/ui/tasks/${id}`);
  const page = await pages.visit(`/ui/tasks/${id}`, { code: codeOf(address) });
  await page.locator(".code").first().waitFor();
  const token = await tokenOf(page);
  await page.reload();
  await page.locator(".code").first().waitFor();
  await page.goto("about:blank");
  await page.goto(address);
  await page.locator(".code").first().waitFor();
  assertEquals(await tokenOf(page), token);
  assertEquals(page.url(), `${pages.origin}/ui/tasks/${id}`);
}, { expected: /401/ });

pageTest("an address that was opened elsewhere is said to be no longer valid", async (pages) => {
  const address = await pages.address("/ui/");
  assert(await beginSession(address) !== "");
  const page = await pages.visit("/ui/", { code: codeOf(address) });
  await page.getByRole("heading", { name: "This address is no longer valid" }).waitFor();
  await page.getByText("taskd ui").waitFor();
  assertEquals(await tokenOf(page), null);
}, { expected: /401/ });

const idle = jumpingClock();
pageTest("a session that has ended is said so above what is being read, and decides nothing", async (pages) => {
  const id = await pages.engine.gate({ diff: ORDINARY });
  const page = await pages.visit(`/ui/tasks/${id}`);
  await page.locator(".code").first().waitFor();
  for (const box of await page.locator(".read input").all()) await box.evaluate(tick);
  idle.jump(13 * HOUR_MS);
  await page.getByRole("status").getByText("This session has ended.").waitFor(NOTICED);
  await picture(page, "ended");
  assert(await page.locator(".code").first().isVisible());
  await page.getByRole("button", { name: "Approve and push" }).click();
  await page.locator(".messages").getByText("Cannot answer without a session").waitFor();
  assertEquals(pages.engine.tasks.read(id).stage, "awaiting_approval");
  assertEquals(await tokenOf(page), null);
  await page.reload();
  await page.getByRole("heading", { name: "This page needs a session" }).waitFor();
}, { expected: /401/, clock: idle });

pageTest("a session that is ended by its button is over in every tab that has it", async (pages) => {
  const page = await pages.visit("/ui/");
  await page.getByText("Nothing waits.").waitFor();
  const token = await tokenOf(page);
  const other = await page.context().newPage();
  await other.goto(`${pages.origin}/ui/`);
  await other.evaluate(`sessionStorage.setItem("taskd.session", "${token}")`);
  await other.reload();
  await other.getByText("Nothing waits.").waitFor();
  await page.getByRole("button", { name: "End session" }).click();
  await page.getByRole("heading", { name: "This session has ended" }).waitFor();
  const { status, body } = await fetch(`${pages.origin}/tasks`, { headers: { authorization: `Bearer ${token}` } });
  await body?.cancel();
  assertEquals([status, await tokenOf(page)], [401, null]);
  await other.getByText("This session has ended.").waitFor(NOTICED);
}, { expected: /401/ });

const disk = jumpingClock();
pageTest("what a browser leaves on the disk of a session opens nothing once that is over", async (pages) => {
  const profile = await Deno.makeTempDir({ prefix: "taskd-profile-" });
  try {
    const address = await pages.address("/ui/");
    const browser = await chromium.launchPersistentContext(profile, {
      executablePath: CHROMIUM,
      args: ["--no-sandbox"],
    });
    const page = await browser.newPage();
    await page.goto(address);
    await page.getByText("Nothing waits.").waitFor();
    await page.getByRole("link", { name: "History" }).click();
    await page.getByRole("heading", { name: "History" }).waitFor();
    const token = await tokenOf(page);
    await browser.close();
    const left = new Map<string, string>();
    for await (const { path } of walk(profile, { includeDirs: false, includeSymlinks: false })) {
      left.set(path.slice(profile.length), new TextDecoder("latin1").decode(await Deno.readFile(path)));
    }
    const having = (text: string) => [...left].filter(([, content]) => content.includes(text)).map(([path]) => path);
    const visited = having(`${pages.origin}/ui/`);
    assert(visited.some((path) => path.endsWith("/History")), `a history was written: ${visited}`);
    // The address is there with its code, which was used.
    assertEquals(await beginSession(address), "");
    const utf16 = [...token].join("\0");
    const elsewhere = [...having(token), ...having(utf16)].filter((path) => !path.includes("/Session Storage/"));
    assertEquals(elsewhere, [], "the token is in the storage of the tab alone");
    disk.jump(HOUR_MS);
    const headers = { authorization: `Bearer ${token}` };
    const { status, body } = await fetch(`${pages.origin}/admin/pending`, { headers });
    await body?.cancel();
    assertEquals(status, 401, "and has ended with the session");
  } finally {
    await Deno.remove(profile, { recursive: true });
  }
}, { clock: disk });
