/**
 * The approval gate in a real browser, as the person uses it who decides.
 */

import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import type { Page } from "playwright-core";
import { newFile, ORDINARY } from "./_diffs.ts";
import {
  closeBrowser,
  flagOf,
  type GateOptions,
  longPageTest,
  type Pages,
  pageTest,
  picture,
  spent,
  tick,
} from "./_pages.ts";
import { longTest } from "../../support/long.ts";

Deno.test.afterAll(closeBrowser);

const LOOKS = ["ci_files", "lockfile"];

const ORDINARY_GATE: GateOptions = {
  diff: ORDINARY,
  second_look: LOOKS,
  flags: [flagOf("ci_files", [".github/workflows/ci.yml"]), flagOf("lockfile", ["package-lock.json"])],
  spend: spent(0.4213),
  setup: {
    commands: [
      { phase: "setup", command: ["npm", "ci"], status: "passed", exit_code: 0, duration_ms: 14_210 },
      { phase: "readiness", command: ["npm", "test"], status: "passed", exit_code: 0, duration_ms: 6_480 },
    ],
    cache: { participation: "hit", key_prefix: "9f2c41ab" },
  },
  refused: [{
    target: "telemetry.example.com:443",
    reason: "the host is not on the list",
    hint: "Add it to egress.yaml if the task needs it",
  }],
  order: {
    model: "claude-sonnet-4-5",
    instruction:
      "Retry the payment call when the bank answers 503.\n\nUse the idempotency key that we have already, back off from 250 ms, and give up after four attempts. Add a test.",
  },
};

async function gate(pages: Pages, options: GateOptions = ORDINARY_GATE): Promise<{ id: string; page: Page }> {
  const id = await pages.engine.gate(options);
  const page = await pages.visit(`/ui/tasks/${id}`);
  await page.getByRole("heading", { name: "Approve this change?" }).waitFor();
  return { id, page };
}

const approve = (page: Page) => page.getByRole("button", { name: "Approve and push" });

/** Runs in the page. */
function hasFocus(element: unknown): boolean {
  return (element as { matches(selector: string): boolean }).matches(":focus");
}

/** Ticks everything that keeps Approve disabled. */
async function readAll(page: Page): Promise<void> {
  for (const box of await page.locator(".read input").all()) await box.evaluate(tick);
  for (const box of await page.locator(".look input").all()) await box.check();
}

pageTest("a change is read, acknowledged and approved by keyboard alone", async (pages) => {
  const { id, page } = await gate(pages);
  assert(await approve(page).isDisabled());
  for (let file = 0; file < 3; file++) {
    await page.keyboard.press("j");
    const focus = page.locator(`#file-${file}`);
    assert(await focus.evaluate(hasFocus), `file ${file} has the focus`);
    await page.locator(`#file-${file} .code`).first().waitFor();
    // What comes into sight is read by that, maybe right before the key, which then takes it back.
    while (!await focus.locator(".read input").isChecked()) await page.keyboard.press("m");
  }
  assert(await approve(page).isDisabled());
  await page.keyboard.press("a");
  assertEquals(await page.evaluate("document.activeElement.id"), "still-open");
  for (const index of [1, 0]) {
    await page.keyboard.press("Shift+Tab");
    const box = page.locator(".look input").nth(index);
    assert(await box.evaluate(hasFocus), `box ${index} has the focus`);
    await page.keyboard.press("Space");
  }
  await page.keyboard.press("a");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Pushing" }).waitFor();
  const { stage, acknowledgements, approval, gate: asked } = pages.engine.tasks.read(id);
  assertEquals([stage, acknowledgements, approval?.diff_sha256], ["pushing", LOOKS, asked?.diff_sha256]);
  // On the record: where it came from, and that every file was read.
  const [brief, files, ...more] = approval?.seen ?? [];
  assertEquals([approval?.by?.via, brief?.part, files?.part, more], ["page", "brief", "files", []]);
  assertEquals([files?.from, files?.to], [1, files?.of]);
});

pageTest(
  "Approve stays disabled until every file is read and every category ticked",
  async (pages) => {
    const { page } = await gate(pages);
    const open = page.locator("#still-open");
    assertStringIncludes(await open.innerText(), "not read");
    assertStringIncludes(await open.innerText(), "2 second looks not ticked");
    for (const box of await page.locator(".look input").all()) await box.check();
    assert(await approve(page).isDisabled());
    await readAll(page);
    assert(await approve(page).isEnabled());
    await page.locator(".look input").first().uncheck();
    assert(await approve(page).isDisabled());
    await page.locator(".look input").first().check();
    await page.locator(".read input").last().uncheck();
    assert(await approve(page).isDisabled());
    assertStringIncludes(await open.innerText(), "1 of 3 files not read");
  },
);

pageTest("a file is read once its last line has been in sight, and not before", async (pages) => {
  const lines = Array.from({ length: 400 }, (_, index) => `line ${index}`);
  const { page } = await gate(pages, { diff: newFile("long.txt", lines) });
  const read = page.locator(".read input");
  await page.locator(".code").first().waitFor();
  assertEquals(await read.isChecked(), false);
  await page.locator(".file-end").scrollIntoViewIfNeeded();
  await page.locator(".file.is-read").waitFor();
  assert(await approve(page).isEnabled());
});

pageTest("a file that was marked by hand stays as it was marked", async (pages) => {
  const lines = Array.from({ length: 400 }, (_, index) => `line ${index}`);
  const { page } = await gate(pages, { diff: newFile("long.txt", lines) + newFile("next.txt", ["x"]) });
  await page.keyboard.press("j");
  await page.keyboard.press("m");
  await page.keyboard.press("m");
  await page.locator("#file-1 .file-end").scrollIntoViewIfNeeded();
  await page.locator("#file-1.is-read").waitFor();
  await page.locator("#file-0 .file-end").scrollIntoViewIfNeeded();
  assertEquals(await page.locator("#file-0 .read input").isChecked(), false);
}, { define: longTest });

pageTest("a closed file is not read by passing over it", async (pages) => {
  const lines = Array.from({ length: 2_000 }, (_, index) => `line ${index}`);
  const { page } = await gate(pages, { diff: newFile("huge.txt", lines) + newFile("small.txt", ["x"]) });
  assertEquals(await page.locator("#file-0 .fold").getAttribute("aria-expanded"), "false");
  await page.locator("#file-1.is-read").waitFor();
  assertEquals(await page.locator("#file-0 .read input").isChecked(), false);
}, { define: longTest });

pageTest("a diff that was replaced at the gate is shown as such, and nothing is approved", async (pages) => {
  const { id, page } = await gate(pages);
  await readAll(page);
  const { TaskdError } = await import("../../../lib/errors.ts");
  pages.engine.refusal = new TaskdError("stale_diff", "Cannot approve: the diff at the gate is another one");
  await approve(page).click();
  await page.getByText("The diff has changed since it was shown.").waitFor();
  assert(await approve(page).isDisabled(), "everything is to be read again");
  assertEquals(pages.engine.tasks.read(id).stage, "awaiting_approval");
}, { expected: /409/ });

pageTest("what was altered on the disk is said, with what to do, and is not approved", async (pages) => {
  const { id, page } = await gate(pages);
  await readAll(page);
  const { TaskdError } = await import("../../../lib/errors.ts");
  pages.engine.refusal = new TaskdError("altered", "Cannot approve: the brief was altered", { hint: "Deny it" });
  await approve(page).click();
  await page.getByText("What is kept of this task was altered.").waitFor();
  await page.getByText("the brief was altered. Deny it").waitFor();
  assertEquals(pages.engine.tasks.read(id).stage, "awaiting_approval");
}, { expected: /409/, define: longTest });

pageTest("bytes that are not those of the record cannot be approved at all", async (pages) => {
  const id = await pages.engine.gate(ORDINARY_GATE);
  pages.engine.diffs.set(id, new TextEncoder().encode(newFile("other.txt", ["x"])));
  const page = await pages.visit(`/ui/tasks/${id}`);
  await page.getByText("This is not the diff or the brief at the gate.").waitFor();
  await readAll(page);
  assert(await approve(page).isDisabled());
});

longPageTest("a brief that is not the one of the record is noticed, and cannot be approved", async (pages) => {
  const id = await pages.engine.gate(ORDINARY_GATE);
  const brief = pages.engine.brief.bind(pages.engine);
  pages.engine.brief = async (id) => ({ ...await brief(id), flags: [] });
  const page = await pages.visit(`/ui/tasks/${id}`);
  await page.getByText("This is not the diff or the brief at the gate.").waitFor();
  await readAll(page);
  assert(await approve(page).isDisabled());
});

pageTest("what the broker still wants to be named is pointed at", async (pages) => {
  const { NotAcknowledged } = await import("../../../broker/task/not_acknowledged.ts");
  const { id, page } = await gate(pages);
  await readAll(page);
  pages.engine.refusal = new NotAcknowledged(["lockfile"], "Cannot approve: lockfile is not acknowledged");
  await approve(page).click();
  await page.getByText("lockfile is not acknowledged").waitFor();
  const expected = page.locator(".look.unread");
  assertStringIncludes(await expected.innerText(), "lockfile");
  assertEquals(await expected.locator("input").isChecked(), false);
  assert(await approve(page).isDisabled());
  assertEquals(pages.engine.tasks.read(id).stage, "awaiting_approval");
}, { expected: /422/, define: longTest });

longPageTest("a denial goes on the record with its reason", async (pages) => {
  const { id, page } = await gate(pages);
  await page.keyboard.press("d");
  await page.keyboard.type("Back off by the Retry-After header instead.");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Denied" }).waitFor();
  assertEquals(pages.engine.tasks.read(id).reason, "Back off by the Retry-After header instead.");
});

pageTest("a gate that another person decided turns into its result", async (pages) => {
  const { id, page } = await gate(pages);
  await pages.engine.deny(id, "on the command line");
  await page.getByRole("heading", { name: "Denied" }).waitFor();
  await page.getByText("on the command line").waitFor();
}, { define: longTest });

longPageTest("after the decision the page shows the same diff, who decided when, and where it went", async (pages) => {
  const { id, page } = await gate(pages);
  const before = await page.locator(".changes .code").allTextContents();
  const { gate: asked } = pages.engine.tasks.read(id);
  await pages.engine.approve(id, { ...asked!, acknowledge: asked!.second_look, by: { via: "HTTP", who: "127.0.0.1" } });
  const task = await pages.engine.tasks.reopen(id);
  const commit = "0123456789".repeat(4);
  const pushed = { branch: "agent/1", commit, pull_request: "https://github.com/acme/orders/pull/7" };
  await task.move({ from: "pushing", to: "done", outcome: "pushed", reason: "", pushed });
  const after = await pages.visit(`/ui/tasks/${id}`);
  await after.locator(".changes .code").first().waitFor();
  assertEquals(await after.locator(".changes .code").allTextContents(), before);
  assertEquals(await after.locator(".changes .read").first().isVisible(), false);
  const head = await after.locator(".gate-head").innerText();
  assertMatch(head, /Approved[^]*Approved by\s+127\.0\.0\.1, via HTTP/);
  const link = after.getByRole("link", { name: commit.slice(0, 12) });
  assertEquals(await link.getAttribute("href"), `https://github.com/acme/orders/commit/${commit}`);
  pages.engine.diffs.set(id, new TextEncoder().encode("another diff"));
  const altered = await pages.visit(`/ui/tasks/${id}`);
  await altered.getByText("not the one that was at the gate").waitFor();
});

// conformance: b2.spend.gate
pageTest("the gate shows what the lease meters, as it is metered", async (pages) => {
  const { id, page } = await gate(pages);
  await page.getByText("$0.42").waitFor();
  pages.engine.spend(id, spent(1.5, { unmetered_requests: 3, priced: false }));
  await page.getByText("at least $1.50").waitFor();
});

pageTest("the gate shows everything that was established, and what was not", async (pages) => {
  const { page } = await gate(pages, {
    ...ORDINARY_GATE,
    databases: [{
      db: "shop",
      base: "main",
      changed: true,
      tables: [{ table: "payments", change: "changed", rows_added: 0, rows_removed: 0, rows_changed: 12 }],
      more_tables: 0,
      schema: [],
      more_schema: 0,
      other_changes: false,
    }],
  });
  for (
    const text of [
      "npm ci",
      "hit, 9f2c41ab",
      "telemetry.example.com:443",
      "12 rows of payments",
      "whether the result builds",
    ]
  ) {
    await page.getByText(text).first().waitFor();
  }
  await picture(page, "gate");
  await picture(page, "gate_whole", { whole: true });
});
