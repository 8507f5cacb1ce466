/**
 * What an agent can put before the eyes of the person who decides: every text of a task is hostile here.
 */

import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import type { Page } from "playwright-core";
import { CONTENT_SECURITY_POLICY } from "../../../broker/web/web.ts";
import { newFile, ORDINARY } from "./_diffs.ts";
import { closeBrowser, flagOf, type Pages, pageTest, picture, tick } from "./_pages.ts";
import { longTest } from "../../support/long.ts";
import { beginSession, codeOf } from "../../support/page_session.ts";

Deno.test.afterAll(closeBrowser);

const MARKUP = `<script>fetch("/admin/pwned")</script><img src=x onerror=alert(1)><a href="javascript:alert(1)">x</a>`;

/** Requests and dialogs that a page must not make. */
function watch(page: Page, origin: string): string[] {
  const made: string[] = [];
  page.on("dialog", (dialog) => {
    made.push(`dialog ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on("request", (request) => {
    const { pathname } = new URL(request.url());
    if (!request.url().startsWith(origin) || pathname.includes("pwned") || pathname.endsWith("/x")) {
      if (!request.url().startsWith("data:")) made.push(request.url());
    }
  });
  return made;
}

async function gate(pages: Pages, diff: string, order = {}): Promise<Page> {
  const id = await pages.engine.gate({ diff, order });
  const page = await pages.visit(`/ui/tasks/${id}`);
  // A file has its box before its text is laid out (`content-visibility: auto`); only then `innerText` sees it.
  await page.locator(".code").first().waitFor();
  await page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))");
  return page;
}

pageTest("markup in a diff, a name, an instruction and a reason is text", async (pages) => {
  const id = await pages.engine.gate({
    diff: newFile(`src/${MARKUP.replaceAll('"', "'")}.html`, [MARKUP, "</td></table></body>", "{{constructor}}"]),
    order: { instruction: MARKUP, repo: `https://github.com/acme/${MARKUP}`, model: MARKUP },
    second_look: [`path:${MARKUP}`],
    flags: [flagOf(`path:${MARKUP}`, [MARKUP])],
    refused: [{ target: MARKUP, reason: MARKUP, hint: MARKUP }],
    evidence: { databases: { [MARKUP]: [MARKUP, { [MARKUP]: MARKUP }] } },
    setup: {
      commands: [{ phase: "setup", command: [MARKUP], status: "failed", exit_code: 1, duration_ms: 5 }],
      cache: { participation: "miss", key_prefix: MARKUP },
    },
  });
  const page = await pages.visit("/ui/");
  const made = watch(page, pages.origin);
  await page.locator(".card a").click();
  await page.locator(".code").first().waitFor();
  assertStringIncludes(await page.locator(".code").textContent() ?? "", MARKUP);
  assert(await page.evaluate<number>("document.documentElement.scrollWidth") <= 1360, "no text widens the page");
  await page.getByRole("link", { name: "History" }).click();
  await page.locator(".tasks a").waitFor();
  await pages.engine.deny(id, MARKUP);
  await page.locator(".tasks a").click();
  await page.getByRole("heading", { name: "Denied" }).waitFor();
  assertStringIncludes(await page.locator(".waiting").innerText(), MARKUP);
  assertEquals(await page.locator("main script, main img, a[href^='javascript:']").count(), 0);
  assertEquals(made, []);
});

pageTest("direction marks, zero-width characters and escape sequences of a diff are seen", async (pages) => {
  const page = await gate(
    pages,
    newFile("src/access.ts", [
      "if (level != \u202e \u2066// only admins\u2069 \u2066user\u2069) {",
      "const is\u200badmin = true;",
      "\u001b[2K\u001b[1A\u001b]0;title\u0007 rm -rf /",
      "const p\u0430ssword = 1; // the second letter is Cyrillic",
      "const \u3164 = invisible;",
      "let x = '\u{e0041}\ufe0f';",
      "windows line\r",
    ]),
  );
  const code = await page.locator(".code").innerText();
  for (
    const name of ["U+202E", "U+2066", "U+2069", "U+200B", "U+001B", "U+0007", "U+3164", "U+E0041", "U+FE0F", "U+000D"]
  ) {
    assertStringIncludes(code, name);
  }
  // deno-lint-ignore no-control-regex
  assertEquals(/[\u001b\u200b\u202a-\u202e\u2066-\u2069\u3164]/.test(await page.locator("main").innerText()), false);
  assertEquals(await page.locator(".mixed").innerText(), "p\u0430ssword");
  await picture(page, "hostile");
});

pageTest("letters that are written from right to left stay in the order of the file", async (pages) => {
  const page = await gate(pages, newFile("a.ts", ['if (role === "\u05d0\u05d1" || 1 == 2) // \u05d2', "plain"]));
  assertEquals(
    await page.evaluate("getComputedStyle(document.querySelector('.line')).unicodeBidi"),
    "isolate-override",
  );
});

pageTest("file names with newlines, quotes and marks are one line, and whole", async (pages) => {
  const name = 'odd\nname "quoted"\t\\back.txt';
  const page = await gate(pages, newFile(name, ["x"]) + ORDINARY);
  const head = page.locator("#file-0 .path");
  assertEquals(await head.innerText(), 'oddU+000Aname "quoted"U+0009\\back.txt');
  assertEquals(await page.locator(".file").count(), 4);
});

pageTest("content cannot pose as another file or end its hunk early", async (pages) => {
  const page = await gate(
    pages,
    newFile("a.txt", ["++ b/other.txt", "diff --git a/evil b/evil", "@@ -1 +1 @@", "\\ cut here: no", "-- a/x"]),
  );
  assertEquals(await page.locator(".file").count(), 1);
  assertEquals(await page.locator(".added").count(), 5);
});

pageTest("nothing hides to the right: lines wrap, and a huge one says how much is left", async (pages) => {
  const page = await gate(pages, newFile("min.js", [`${" ".repeat(900)}steal();`, "x".repeat(200_000) + "END"]));
  const width = await page.evaluate<number>("document.documentElement.scrollWidth");
  assert(width <= 1360, `${width} px`);
  const box = await page.locator(".line").first().boundingBox();
  assert(box !== null && box.height > 40, "the first line is wrapped");
  await page.locator(".file-end").scrollIntoViewIfNeeded();
  assertEquals(await page.locator(".read input").isChecked(), false, "a line that is cut is not read by passing");
  await page.getByRole("button", { name: "Show 198,003 more characters" }).click();
  assertMatch(await page.locator(".line").nth(1).innerText(), /END$/);
});

pageTest("a binary change and the end of a cut diff are to be acknowledged", async (pages) => {
  const diff = `diff --git a/logo.png b/logo.png\nindex ${"1".repeat(40)}..${"2".repeat(40)} 100644\n` +
    `Binary files a/logo.png and b/logo.png differ\n${ORDINARY}\\ cut here: the diff is longer than 4194304 bytes\n`;
  const id = await pages.engine.gate({ diff, second_look: ["binary", "cut_diff"] });
  const page = await pages.visit(`/ui/tasks/${id}`);
  await page.getByText("The diff ends here").waitFor();
  for (const box of await page.locator(".read input").all()) await box.evaluate(tick);
  assertEquals(await page.locator(".look input").count(), 2);
  assert(await page.getByRole("button", { name: "Approve and push" }).isDisabled());
  for (const box of await page.locator(".look input").all()) await box.check();
  assert(await page.getByRole("button", { name: "Approve and push" }).isEnabled());
}, { define: longTest });

pageTest("output with terminal sequences is inert, and colours of a terminal are left out", async (pages) => {
  const task = await pages.engine.begin();
  await task.move({ from: "admission", to: "staging" });
  await task.move({ from: "staging", to: "running" });
  await task.append({
    type: "output",
    channel: "stdout",
    text: `\u001b[31mred\u001b[0m \u001b]52;c;cHduZWQ=\u0007 ${MARKUP}`,
  });
  const page = await pages.visit(`/ui/tasks/${task.id}`);
  const made = watch(page, pages.origin);
  const output = page.locator(".output");
  await output.getByText("red").waitFor();
  assertStringIncludes(await output.innerText(), `red U+001B]52;c;cHduZWQ=U+0007 ${MARKUP}`);
  assertEquals(made, []);
});

pageTest("the code leaves the address at once, and the token is kept in the tab's own storage alone", async (pages) => {
  const address = await pages.address("/ui/");
  const code = codeOf(address);
  const page = await pages.visit("/ui/", { code });
  await page.getByText("Nothing waits.").waitFor();
  assertEquals(page.url(), `${pages.origin}/ui/`);
  const token = await page.evaluate<string>("sessionStorage.getItem('taskd.session')");
  assertMatch(token, /^[0-9a-f]{64}$/);
  const kept = await page.evaluate<string>(
    "JSON.stringify([{...localStorage}, document.cookie, history.state, location.href, Object.keys(sessionStorage)])",
  );
  const content = await page.content();
  for (const secret of [code, token]) {
    assertEquals([kept, content].map((text) => text.includes(secret)), [false, false]);
  }
  assertEquals(await beginSession(address), "", "the address is worth nothing now");
  await page.getByRole("link", { name: "History" }).click();
  await page.goBack();
  await page.getByText("Nothing waits.").waitFor();
  assertEquals(page.url().includes("code"), false);
});

pageTest("no URL that a page asks for has the token in it", async (pages) => {
  const id = await pages.engine.gate({ diff: ORDINARY });
  const page = await pages.visit("/ui/");
  const asked: string[] = [];
  page.on("request", (request) => void asked.push(request.url()));
  await page.locator(".card a").click();
  await page.locator(".code").first().waitFor();
  assert(asked.some((url) => url.endsWith(`/tasks/${id}/events`)));
  const token = await page.evaluate<string>("sessionStorage.getItem('taskd.session')");
  assertEquals(asked.filter((url) => url.includes(token)), []);
}, { define: longTest });

pageTest("without a session a page says how to get one, and asks for nothing", async (pages) => {
  const page = await pages.visit("/ui/", { code: null });
  await page.getByText("taskd ui").waitFor();
  await picture(page, "sign_in");
});

pageTest("a page runs no script but its own, and makes no markup from strings", async (pages) => {
  const response = await fetch(`${pages.origin}/ui/`);
  await response.body?.cancel();
  assertEquals(response.headers.get("content-security-policy"), CONTENT_SECURITY_POLICY);
  const page = await pages.visit("/ui/");
  await page.getByText("Nothing waits.").waitFor();
  // Evaluated by the debugger, so that only what the page's own script may do is refused.
  assertStringIncludes(
    await page.evaluate<string>("try { document.body.innerHTML = '<b>x</b>'; 'made' } catch (error) { error.name }"),
    "TypeError",
  );
  assertStringIncludes(
    await page.evaluate<string>(
      "new Promise((done) => { const s = document.createElement('style'); s.textContent = 'body{display:none}';" +
        "document.head.append(s); setTimeout(() => done(getComputedStyle(document.body).display), 0) })",
    ),
    "block",
  );
}, { expected: /Content Security Policy|TrustedHTML|Trusted Type/ });
