import { assert, assertEquals, assertMatch } from "@std/assert";
import { MODULES } from "./_assets.ts";
import { CONTENT_SECURITY_POLICY, webResponse } from "./web.ts";

const PAGES = new URL("./pages/", import.meta.url);
const STYLES = new URL("./styles/", import.meta.url);

async function get(path: string): Promise<{ type: string | null; body: string }> {
  const response = webResponse(path);
  assert(response !== undefined, path);
  assertEquals(response.headers.get("content-security-policy"), CONTENT_SECURITY_POLICY);
  assertEquals(response.headers.get("x-content-type-options"), "nosniff");
  assertEquals(response.headers.get("referrer-policy"), "no-referrer");
  assertEquals(response.headers.get("cache-control"), "no-store");
  return { type: response.headers.get("content-type"), body: await response.text() };
}

Deno.test("every module of the pages is carried by the program", () => {
  const files = [...Deno.readDirSync(PAGES)].map(({ name }) => name).filter((name) => !name.endsWith("_test.ts"));
  // The table of characters and what was seen are the terminal's: the very same text.
  const shared = [
    "../../lib/concat.ts",
    "../../lib/long_text.ts",
    "../../lib/http/server_sent_events.ts",
    "../../lib/merge/decidable.ts",
    "../../lib/text/canonical_json.ts",
    "../../lib/text/characters.ts",
    "../../lib/text/commit_address.ts",
    "../task/decided.ts",
    "../task/page_proof.ts",
    "../task/seen.ts",
    "../task/shown.ts",
  ];
  const nameOf = (path: string) => path.slice(path.lastIndexOf("/") + 1);
  for (const path of shared) {
    assertEquals(MODULES.get(nameOf(path).slice(0, -3)), Deno.readTextFileSync(new URL(path, import.meta.url)));
  }
  assertEquals([...MODULES.keys()].map((name) => `${name}.ts`).sort(), [...files, ...shared.map(nameOf)].sort());
});

Deno.test("the program carries every part of the style sheet, with media rules last", async () => {
  const { type, body } = await get("/ui/style.css");
  assertEquals(type, "text/css; charset=utf-8");
  const parts = Array.from(Deno.readDirSync(STYLES), ({ name }) => Deno.readTextFileSync(new URL(name, STYLES)));
  assertEquals(parts.filter((part) => body.split(part).length !== 2), []);
  assertEquals(body.length, parts.join("\n").length);
  assert(body.endsWith(Deno.readTextFileSync(new URL("media.css", STYLES))));
});

Deno.test("webResponse() answers the pages with one shell", async () => {
  const { type, body } = await get("/ui/");
  assertEquals(type, "text/html; charset=utf-8");
  for (const path of ["/ui/history", "/ui/tasks/0123abcd"]) assertEquals((await get(path)).body, body);
  assertEquals(/<script(?![^>]*\ssrc=)|\sstyle=|\son\w+=/i.test(body), false, "nothing is inline");
});

Deno.test("webResponse() answers modules without their types, and all that they import", async () => {
  const seen = new Set(["app"]);
  for (const name of seen) {
    const { type, body } = await get(`/ui/pages/${name}.ts`);
    assertEquals(type, "text/javascript; charset=utf-8");
    assertEquals(/^\s*(?:import type|interface|export interface) /m.test(body.replace(/\/\*[^]*?\*\//g, "")), false);
    for (const [, path] of body.matchAll(/^import [^;]* from "(.+)";/gm)) {
      assertMatch(path!, /^\.\/[a-z_]+\.ts$/);
      seen.add(path!.slice(2, -3));
    }
  }
  assertEquals([...seen].sort(), [...MODULES.keys()].sort());
});

Deno.test("webResponse() has nothing else, however it is spelled", () => {
  for (
    const path of [
      "/",
      "/ui/x",
      "/ui/tasks/",
      "/ui/tasks/not-hex",
      "/ui/pages/",
      "/ui/pages/app.js",
      "/ui/pages/../web.ts",
      "/ui/pages/%61pp.ts",
      "/ui/pages/constructor.ts",
      "/ui/pages/__proto__.ts",
      "/ui//",
      "/ui/history/",
    ]
  ) {
    assertEquals(webResponse(path), undefined, path);
  }
  assertEquals(webResponse("/ui")?.headers.get("location"), "/ui/");
});
