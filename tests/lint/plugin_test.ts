import { assert, assertEquals } from "@std/assert";
import { findOutWords } from "./_out_words.ts";
import { FLOORS } from "./_rooms.ts";
import plugin from "./plugin.ts";

/** What is directly below a part with rooms, a page for readers included. */
const MAX_ENTRIES = 18;
const MAX_FLOORS: Readonly<Record<string, number>> = { broker: 6, cli: 7 };

/** One line of code in one file, and the rules that must speak up. */
interface Case {
  file: string;
  code: string;
  rules: string[];
}

function check(name: string, cases: Case[]): void {
  Deno.test(name, () => {
    for (const { file, code, rules } of cases) {
      const found = Deno.lint.runPlugin(plugin, file, code).map((diagnostic) => diagnostic.id.replace("taskd/", ""));
      assertEquals([...new Set(found)], rules, `${file}: ${code}`);
    }
  });
}

check("raw-file-access: files are opened only where SQLite has nothing open", [
  { file: "lib/capture/session.ts", code: 'Deno.openSync("x");', rules: ["raw-file-access"] },
  { file: "lib/capture/session.ts", code: 'await Deno.readFile("x");', rules: ["raw-file-access"] },
  { file: "lib/store/store.ts", code: 'await Deno["copyFile"]("a", "b");', rules: ["raw-file-access"] },
  { file: "daemon/main.ts", code: "const { readTextFileSync: read } = Deno;", rules: ["raw-file-access"] },
  { file: "daemon/main.ts", code: 'import { openSync } from "node:fs";', rules: ["raw-file-access"] },
  { file: "cli/main.ts", code: 'const fs = await import("node:fs/promises");', rules: ["raw-file-access"] },
  { file: "daemon/serve.ts", code: 'import { copy } from "@std/fs/copy";', rules: ["raw-file-access"] },
  { file: "daemon/serve.ts", code: 'import * as fs from "@std/fs";', rules: ["raw-file-access"] },
  { file: "daemon/serve.ts", code: 'import { walk } from "@std/fs/walk";', rules: [] },
  { file: "lib/sqlite/checkout_file_fast.ts", code: 'Deno.openSync("x");', rules: ["raw-file-access"] },
  { file: "lib/sqlite/checkout_file.ts", code: 'Deno.openSync("x");', rules: [] },
  { file: "lib/backend/local.ts", code: 'await Deno.open("x");', rules: [] },
  { file: "lib/fs.ts", code: 'await Deno.writeTextFile("x", "");', rules: [] },
  { file: "lib/store/store_test.ts", code: 'await Deno.readFile("x");', rules: [] },
  { file: "tests/bench/fork.ts", code: 'await Deno.readFile("x");', rules: [] },
  { file: "lib/store/store.ts", code: 'await Deno.stat("x"); await Deno.rename("a", "b");', rules: [] },
]);

check("line-regex: what is in a line never counts as a line", [
  { file: "broker/git/human_diff.ts", code: "/^diff --git /gm.test('');", rules: ["line-regex"] },
  { file: "broker/git/human_diff.ts", code: "/^diff --git /g.test('');", rules: [] },
  { file: "broker/git/human_diff_test.ts", code: "/^diff --git /gm.test('');", rules: [] },
]);

check("ambient-time: lib takes its clock and its randomness as values", [
  { file: "lib/store/store.ts", code: "const t = Date.now();", rules: ["ambient-time"] },
  { file: "lib/store/store.ts", code: "const now = Date.now;", rules: ["ambient-time"] },
  { file: "lib/store/store.ts", code: "const t = new Date();", rules: ["ambient-time"] },
  { file: "lib/store/store.ts", code: "const t = performance.now();", rules: ["ambient-time"] },
  { file: "lib/store/store.ts", code: "const r = Math.random();", rules: ["ambient-time"] },
  { file: "lib/store/store.ts", code: "setTimeout(() => {}, 1);", rules: ["ambient-time"] },
  { file: "lib/store/store.ts", code: "globalThis.setInterval(() => {}, 1);", rules: ["ambient-time"] },
  { file: "lib/store/store.ts", code: "const t = new Date(clock.now());", rules: [] },
  { file: "lib/clock.ts", code: "const t = Date.now();", rules: [] },
  { file: "lib/store/store_test.ts", code: "const t = Date.now();", rules: [] },
  { file: "daemon/main.ts", code: "const t = Date.now();", rules: [] },
]);

check("process-state: nobody changes what all threads share", [
  { file: "lib/fs.ts", code: "Deno.umask(0o177);", rules: ["process-state"] },
  { file: "lib/fs_test.ts", code: "const set = Deno.chdir; set;", rules: ["process-state"] },
  { file: "cli/main.ts", code: 'Deno.env.set("A", "b");', rules: ["process-state"] },
  { file: "cli/main.ts", code: 'Deno.env["delete"]("A");', rules: ["process-state"] },
  { file: "cli/main.ts", code: 'Deno.env.get("A");', rules: [] },
]);

check("layering: dependencies point one way", [
  { file: "lib/store/store.ts", code: 'import { x } from "../../daemon/x.ts"; x();', rules: ["layering"] },
  { file: "lib/store/store.ts", code: 'export * from "../../cli/x.ts";', rules: ["layering"] },
  { file: "lib/store/store.ts", code: 'export { x } from "../../cli/x.ts";', rules: ["layering"] },
  { file: "lib/store/store.ts", code: 'type X = import("../../cli/x.ts").X;', rules: ["layering"] },
  { file: "daemon/main.ts", code: 'import type { X } from "../broker/x.ts";', rules: ["layering"] },
  { file: "broker/main.ts", code: 'await import("../daemon/x.ts");', rules: ["layering"] },
  { file: "daemon/main.ts", code: 'new Worker(new URL("../cli/w.ts", import.meta.url));', rules: ["layering"] },
  { file: "mod.ts", code: 'export { x } from "./daemon/x.ts";', rules: ["layering"] },
  { file: "cli/main.ts", code: 'import { x } from "../daemon/x.ts"; x();', rules: [] },
  { file: "cli/main.ts", code: 'import config from "../deno.json" with { type: "json" };', rules: [] },
  { file: "cli/main.ts", code: 'const root = new URL("../", import.meta.url); root;', rules: [] },
  { file: "daemon/main.ts", code: 'import { x } from "../lib/x.ts"; x();', rules: [] },
  {
    file: "daemon/x.ts",
    code: 'import { BrokerClient } from "@taskd/taskd/broker"; BrokerClient;',
    rules: ["layering"],
  },
  { file: "lib/x.ts", code: 'import.meta.resolve("../broker/x.ts");', rules: ["layering"] },
  { file: "broker/git/x.ts", code: "await import(`../engine/engine.ts`);", rules: ["layering"] },
  { file: "broker/git/x.ts", code: 'new Worker(new URL("../engine/x.ts", import.meta.url));', rules: ["layering"] },
  { file: "broker/git/x.ts", code: 'const p = "../engine/engine.ts"; await import(p);', rules: ["layering"] },
  { file: "broker/git/x.ts", code: "const p = new URL(place, import.meta.url);", rules: ["layering"] },
  { file: "broker/git/x.ts", code: "const here = import.meta.dirname; here;", rules: ["layering"] },
  { file: "broker/git/x.ts", code: "const { url } = import.meta; url;", rules: ["layering"] },
  { file: "lib/packages/s3_sdk.ts", code: "await import(S3_SDK);", rules: [] },
  { file: "cli/main.ts", code: "if (import.meta.main) Deno.exit(1);", rules: [] },
  { file: "tests/x.ts", code: "await import(place);", rules: [] },
  { file: "mod.ts", code: 'export { x } from "./lib/x.ts";', rules: [] },
]);

check("layering: an underscore keeps a file inside its folder", [
  { file: "lib/capture/session.ts", code: 'import { x } from "../store/_x.ts"; x();', rules: ["layering"] },
  { file: "tests/e2e/fork_test.ts", code: 'import { x } from "../../lib/store/_x.ts"; x();', rules: ["layering"] },
  { file: "lib/store/store.ts", code: 'import { x } from "./_x.ts"; x();', rules: [] },
  { file: "lib/store/_x_test.ts", code: 'import { x } from "./_x.ts"; x();', rules: [] },
]);

check("layering: product code never imports test code", [
  { file: "lib/store/store.ts", code: 'import { x } from "./chain_test.ts"; x();', rules: ["layering"] },
  { file: "cli/main.ts", code: 'import { x } from "../tests/support/x.ts"; x();', rules: ["layering"] },
  { file: "lib/store/store_test.ts", code: 'import { x } from "../../tests/support/x.ts"; x();', rules: [] },
]);

check("import-map-only: packages are pinned in one place", [
  { file: "lib/store/store.ts", code: 'import * as v from "npm:valibot@1.5.0"; v;', rules: ["import-map-only"] },
  { file: "cli/main.ts", code: 'await import("jsr:@std/yaml");', rules: ["import-map-only"] },
  { file: "tests/e2e/a_test.ts", code: 'import "https://example.org/x.ts";', rules: ["import-map-only"] },
  { file: "lib/x.ts", code: 'import "file:///x.ts";', rules: ["import-map-only"] },
  { file: "lib/x.ts", code: 'await import("/srv/x.ts");', rules: ["import-map-only"] },
  { file: "broker/serve.ts", code: 'import * as v from "valibot"; v;', rules: [] },
  { file: "lib/store/store.ts", code: 'import * as v from "valibot"; v;', rules: ["import-map-only"] },
  { file: "lib/fs.ts", code: 'await import("@std/path/dirname");', rules: ["import-map-only"] },
  { file: "lib/fs.ts", code: 'import "node:fs"; import "./clock.ts";', rules: [] },
  { file: "lib/fs_test.ts", code: 'import "@std/assert";', rules: [] },
  { file: "lib/packages/valibot.ts", code: 'export * from "npm:valibot@1.5.0";', rules: [] },
  { file: "std/path/join.ts", code: 'export { join } from "npm:deno-std@1.4.0/path/join.js";', rules: [] },
]);

const LONG_NAME = "behaves ".repeat(12);

check("test-names: a test's name has at most 90 characters", [
  { file: "lib/x_test.ts", code: `Deno.test("${LONG_NAME}", () => {});`, rules: ["test-names"] },
  { file: "tests/x_test.ts", code: `longTest("${LONG_NAME}", () => {});`, rules: ["test-names"] },
  { file: "tests/x_test.ts", code: `podmanTest("${LONG_NAME}", () => {});`, rules: ["test-names"] },
  { file: "tests/x_test.ts", code: `Deno.test({ name: "${LONG_NAME}", fn() {} });`, rules: ["test-names"] },
  { file: "lib/x_test.ts", code: 'Deno.test("x() behaves", () => {});', rules: [] },
  { file: "lib/x.ts", code: `print("${LONG_NAME}");`, rules: [] },
]);

check("words: names, comments and texts use the field's words", [
  { file: "lib/x.ts", code: "const cradle = 1; cradle;", rules: ["words"] },
  { file: "lib/x.ts", code: "function checkDoor() {} checkDoor();", rules: ["words"] },
  { file: "lib/x.ts", code: "const PATIENCE_MS = 1; PATIENCE_MS;", rules: ["words"] },
  { file: "lib/x.ts", code: "// Waits patiently.\n", rules: ["words"] },
  { file: "lib/x.ts", code: 'throw new Error("the door is shut");', rules: ["words"] },
  { file: "tests/x_test.ts", code: "/**\n * What came\n * of it.\n */\n", rules: ["words"] },
  { file: "lib/x.ts", code: 'const outdoor = "airborne", workspace = 2; outdoor; workspace;', rules: [] },
  { file: "lib/x.ts", code: "// A staging directory.\n", rules: [] },
]);

/** Text that no linter reads. */
const PAGE = /\.(?:md|ya?ml|sh|html|css|json|txt|service|socket|timer|plist|pml)$|^\.ci\/run$/;

Deno.test("documentation uses none of the words that are out", async () => {
  const root = new URL("../../", import.meta.url);
  const { stdout } = await new Deno.Command("git", { args: ["ls-files"], cwd: root }).output();
  const pages = new TextDecoder().decode(stdout).trim().split("\n").filter((path) => PAGE.test(path));
  assert(pages.some((path) => path.startsWith("docs/monitoring/")));
  for (const path of pages) {
    assertEquals(findOutWords(await Deno.readTextFile(new URL(path, root)), path).map(({ text }) => text), [], path);
  }
});

check("layering: a room imports only from floors below its own", [
  { file: "broker/git/git.ts", code: 'import type { X } from "../engine/x.ts";', rules: ["layering"] },
  { file: "broker/http/serve.ts", code: 'import { x } from "../web/x.ts"; x();', rules: ["layering"] },
  { file: "broker/attic/x.ts", code: 'import { x } from "../git/x.ts"; x();', rules: ["layering"] },
  { file: "cli/text/io.ts", code: 'export { x } from "../plan/x.ts";', rules: ["layering"] },
  { file: "broker/engine/engine.ts", code: 'import { x } from "../git/x.ts"; x();', rules: [] },
  { file: "broker/engine/engine.ts", code: 'import { x } from "./queue/x.ts"; x();', rules: [] },
  { file: "cli/table/x.ts", code: 'const main = new URL("../main.ts", import.meta.url); main;', rules: ["layering"] },
  { file: "broker/git/git_test.ts", code: 'import { x } from "../engine/x.ts"; x();', rules: [] },
]);

Deno.test("every room has a floor, and a part has few of both", () => {
  const root = new URL("../../", import.meta.url);
  for (const [part, floors] of Object.entries(FLOORS)) {
    const entries = [...Deno.readDirSync(new URL(part, root))].map(({ name }) => name);
    assertEquals(entries.filter((name) => name !== "README.md").sort(), floors.flat().sort(), part);
    assert(entries.length <= MAX_ENTRIES, `${part}: ${entries.length} entries`);
    assert(floors.length <= MAX_FLOORS[part]!, `${part}: ${floors.length} floors`);
  }
});

// lib/fs.ts imports lib/errors.ts: these cases rest on it.
check("import-cycles: no module imports itself by way of others", [
  { file: "lib/errors.ts", code: 'import { x } from "./fs.ts"; x();', rules: ["import-cycles"] },
  { file: "lib/errors.ts", code: 'import type { X } from "./fs.ts";', rules: ["import-cycles"] },
  { file: "lib/errors.ts", code: 'export * from "./fs.ts";', rules: ["import-cycles"] },
  { file: "lib/errors.ts", code: 'await import("./fs.ts");', rules: ["import-cycles"] },
  { file: "lib/errors.ts", code: "await import(`./fs.ts`);", rules: ["import-cycles"] },
  {
    file: "lib/errors.ts",
    code: 'import { openStore } from "@taskd/taskd"; openStore();',
    rules: ["import-cycles", "import-map-only", "layering"],
  },
  { file: "lib/errors.ts", code: 'import { x } from "./errors.ts"; x();', rules: ["import-cycles"] },
  { file: "lib/errors.ts", code: 'const url = new URL("./fs.ts", import.meta.url); url;', rules: [] },
  { file: "lib/fs.ts", code: 'import { x } from "./errors.ts"; x();', rules: [] },
  { file: "lib/errors_test.ts", code: 'import { x } from "./fs.ts"; x();', rules: [] },
]);
