import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import type { Lane } from "../../../broker/agents.ts";
import { checkBody, TABLES } from "../../../broker/gateway/fields/mod.ts";
import type { Shape } from "../../../broker/gateway/fields/shapes.ts";
import { Refusal } from "../../../broker/gateway/refusal.ts";
import { matchRoute, ROUTES } from "../../../broker/gateway/routes.ts";
import { GOOD_BODIES, LANE_PATHS } from "../../attacks/inputs/gateway.ts";
import { SPELLINGS } from "../../attacks/inputs/gateway_spellings.ts";
import { testSeed } from "../../support/seed.ts";
import { SeededRandom } from "../../support/writers/random.ts";
import { harness } from "./harness.ts";
import recorded from "./recorded_requests.json" with { type: "json" };
import { json } from "./vendor_server.ts";

function check(lane: Lane, path: string, body: unknown, allowed: string[] = [], version?: string) {
  return checkBody(lane, matchRoute(lane, "POST", path), body, { allowed: new Set(allowed), version });
}

Deno.test("no spelling of a vendor's tool, reference, state or other model reaches the vendor", async () => {
  await using gate = await harness(json({}));
  for (const { lane, path, body } of SPELLINGS) {
    const response = await gate.post(gate.lease(lane), path, body);
    const problem = await response.json();
    assert([400, 403].includes(response.status), `${response.status}: ${JSON.stringify(body)}`);
    assert(problem.field, JSON.stringify(problem));
    assertStringIncludes(problem.detail, problem.field);
  }
  assertEquals(gate.vendor.seen, []);
});

Deno.test("what the agents' own programs sent when they were recorded passes as it is", async () => {
  await using gate = await harness(json({}));
  for (const { agent, lane, path, body, headers = {} } of recorded) {
    const response = await gate.post(gate.lease(lane as Lane), path, body, { headers });
    assertEquals([agent, response.status, await response.text()], [agent, 200, "{}"]);
    assertEquals(JSON.parse(gate.vendor.seen.at(-1)!.body), body);
  }
  assertEquals(new Set(recorded.map(({ agent }) => agent)).size, 4);
});

const URL_TEXT = "https://evil.example/x";
const NAMES = `url uri href src link image_url imageUrl file_url fileUri file_id fileId file_ids server_url base_url
  callback webhook source_url plugins mcp_servers mcpServers connectors web_search search browse googleSearch
  code_execution models provider route fallbacks previous_response_id conversation store background prompt container
  cachedContent thread vector_store_ids tools`.split(/\s+/);
const SPELL: ((name: string) => string)[] = [
  (name) => name,
  (name) => name.toUpperCase(),
  (name) => name.replaceAll("_", "-"),
  (name) => name.replaceAll("_", ""),
  (name) => name.replaceAll("s", "\u017f"),
  (name) => `x_${name}`,
  (name) => `${name}\u200b`,
  (name) => ` ${name}`,
  (name) => [...name].map((char) => String.fromCodePoint(char.codePointAt(0)! + 0xfee0)).join(""),
];
const VALUES: unknown[] = [
  URL_TEXT,
  "file-1",
  [URL_TEXT],
  { url: URL_TEXT },
  [{ type: "web_search" }],
  [{ googleSearch: {} }],
  { type: "mcp", server_url: URL_TEXT },
];
const ITEMS: unknown[] = [
  { type: "web_search" },
  { type: "image", source: { type: "url", url: URL_TEXT } },
  { type: "image_url", image_url: { url: URL_TEXT } },
  { type: "input_file", file_url: URL_TEXT },
  { type: "input_image", file_id: "file-1" },
  { type: "item_reference", id: "x" },
  { fileData: { fileUri: URL_TEXT } },
  { parts: [{ file_data: { file_uri: URL_TEXT } }] },
  { role: "user", content: [{ type: "image_url", image_url: URL_TEXT }] },
  { type: "mcp", server_label: "x", server_url: URL_TEXT },
];

type Container = Record<string, unknown> | unknown[];

/** Every object and list of a body that its table looks into. */
function places(shape: Shape | undefined, value: unknown): Container[] {
  if (typeof value !== "object" || value === null) return [];
  switch (shape?.kind) {
    case "object":
      return [
        value as Container,
        ...Object.entries(value).flatMap(([key, member]) => places(shape.fields.get(key), member)),
      ];
    case "tagged": {
      const tag = (value as Record<string, unknown>)[shape.tag] as string | undefined;
      return places(tag === undefined ? shape.untagged : shape.variants.get(tag), value);
    }
    case "list":
      return [value as Container, ...(value as unknown[]).flatMap((item) => places(shape.of, item))];
    case "either":
      return places(Array.isArray(value) ? shape.list : shape.object, value);
    case "gated":
      return places(shape.inner, value);
    default:
      return [];
  }
}

Deno.test("no URL, id or tool of a forbidden kind at any place and under any spelling passes", () => {
  const random = new SeededRandom(testSeed(20261125));
  const pick = <T>(items: readonly T[]): T => random.pick(items);
  const bodies = [
    ...recorded,
    ...Object.entries(GOOD_BODIES).map(([lane, body]) => ({ lane, path: LANE_PATHS[lane as Lane], body })),
  ];
  let deepest = 0;
  for (let round = 0; round < 6_000; round++) {
    const { lane, path, body } = pick(bodies) as { lane: Lane; path: string; body: unknown };
    const changed = structuredClone(body);
    check(lane, path, changed);
    const table = TABLES[lane][matchRoute(lane, "POST", path).row.name]!;
    const found = places(table.body, changed);
    deepest = Math.max(deepest, found.length);
    const place = pick(found);
    if (Array.isArray(place)) place.splice(random.between(0, place.length), 0, pick(ITEMS));
    else place[pick(SPELL)(pick(NAMES))] = pick(VALUES);
    try {
      check(lane, path, changed);
    } catch (error) {
      assert(error instanceof Refusal && error.field !== undefined, String(error));
      continue;
    }
    throw new Error(`round ${round}, ${lane} ${path}: it passed: ${JSON.stringify(place)}`);
  }
  assert(deepest > 25, `${deepest} places: it looks into the bodies`);
});

Deno.test("what is free by the table is data, whatever stands in it", () => {
  const anything = {
    tools: [{ type: "web_search" }],
    plugins: [1],
    url: URL_TEXT,
    file_id: "f",
    Model: "x",
    model: "y",
  };
  const good: [Lane, string, Record<string, unknown>][] = [
    ["vendor_a", LANE_PATHS.vendor_a, {
      tools: [{ name: "x", input_schema: anything, input_examples: [anything] }],
      messages: [{ role: "assistant", content: [{ type: "tool_use", id: "1", name: "x", input: anything }] }],
      output_config: { format: { type: "json_schema", schema: anything } },
    }],
    ["vendor_b", LANE_PATHS.vendor_b, {
      tools: [{ type: "function", name: "x", parameters: anything }],
      input: [{ type: "function_call", name: "x", call_id: "1", arguments: JSON.stringify(anything) }],
      metadata: { url: URL_TEXT },
    }],
    ["vendor_c", LANE_PATHS.vendor_c, {
      tools: [{ function_declarations: [{ name: "x", parameters_json_schema: anything }] }],
      contents: [{ role: "model", parts: [{ function_call: { name: "x", args: anything } }] }],
      generation_config: { response_schema: anything },
    }],
    ["compat", LANE_PATHS.compat, {
      tools: [{ type: "function", function: { name: "x", parameters: anything } }],
      messages: [{
        role: "assistant",
        tool_calls: [{ id: "1", type: "function", function: { name: "x", arguments: anything } }],
      }],
    }],
  ];
  for (const [lane, path, add] of good) check(lane, path, { ...GOOD_BODIES[lane], ...add });
});

Deno.test("a model whose name looks like that of one that acts is asked", () => {
  const names = [
    "exaone-3.5-7.8b",
    "lgai/exaone-4.0",
    "solar-pro",
    "deepseek-r1",
    "meta/llama-3.3:free",
    "openrouter/horizon",
  ];
  for (const model of [...names, "autoglm", "qwen3-coder-30b", "gpt-4o-online2", "routerless-1", "freedom:7b"]) {
    assertEquals(check("compat", LANE_PATHS.compat, { ...GOOD_BODIES.compat, model }).model, model);
  }
});

Deno.test("a field that is not known is named with the setting that lets it pass", () => {
  const asked = (body: Record<string, unknown>, allowed: string[], lane: Lane = "compat") =>
    check(lane, LANE_PATHS[lane], { ...GOOD_BODIES[lane], ...body }, allowed);
  const refused = (body: Record<string, unknown>, allowed: string[], field: string, setting: string, lane?: Lane) => {
    const error = assertThrows(() => asked(body, allowed, lane), Refusal);
    assertEquals([error.code, error.field], ["field_refused", field]);
    assertStringIncludes(error.message, `add "${field.replace(/\[\d+\]/g, "")}" to ${setting} in config.yaml`);
  };
  const nested = { own: { a: 1, b: [{ c: true }] } };
  refused(nested, [], "own", "compat.allow_fields");
  refused(nested, ["own"], "own.a", "compat.allow_fields");
  refused(nested, ["own", "own.a", "own.b"], "own.b.c", "compat.allow_fields");
  asked(nested, ["own", "own.a", "own.b", "own.b.c"]);
  asked(nested, ["own.*"]);
  refused({ Own: 1 }, ["own", "own.*"], "Own", "compat.allow_fields");
  refused({ messages: [{ role: "user", content: "x", own: 1 }] }, ["own"], "messages[0].own", "compat.allow_fields");
  asked({ messages: [{ role: "user", content: "x", own: 1 }] }, ["messages.own"]);
  refused({ own: 1 }, [], "own", "allow_vendor_tools", "vendor_a");
  asked({ own: 1 }, ["own"], "vendor_a");
  // A spelling of a known field is no field of its own.
  assertEquals(assertThrows(() => asked({ MODEL: "x" }, ["MODEL"]), Refusal).code, "bad_request");
});

Deno.test("types and bounds are held, and a version that is not known is refused", () => {
  const bad: [Record<string, unknown>, string][] = [
    [{ max_tokens: "100" }, "max_tokens"],
    [{ max_tokens: 1.5 }, "max_tokens"],
    [{ max_tokens: 1e12 }, "max_tokens"],
    [{ stream: "yes" }, "stream"],
    [{ messages: {} }, "messages"],
    [{ messages: [null] }, "messages[0]"],
    [{ messages: [{ role: "user", content: 7 }] }, "messages[0].content"],
    [{ thinking: { type: "a b" } }, "thinking.type"],
    [{ tools: [{ name: "x".repeat(2000), input_schema: {} }] }, "tools[0].name"],
    [{ model: null }, "model"],
  ];
  for (const [add, field] of bad) {
    const error = assertThrows(
      () => check("vendor_a", LANE_PATHS.vendor_a, { ...GOOD_BODIES.vendor_a, ...add }),
      Refusal,
    );
    assertEquals([error.code, error.field], ["bad_request", field]);
  }
  const body = GOOD_BODIES.vendor_a;
  for (const version of ["2023-06-01", "2026-10-21"]) check("vendor_a", LANE_PATHS.vendor_a, body, [], version);
  const other = assertThrows(() => check("vendor_a", LANE_PATHS.vendor_a, body, [], "2027-01-01"), Refusal);
  assertEquals(other.field, "anthropic-version");
});

Deno.test("each route that takes a body has a table, and each field of its top level a source", () => {
  for (const [lane, rows] of Object.entries(ROUTES)) {
    for (const { name, method } of rows) {
      const table = TABLES[lane as Lane][name];
      assertEquals(table !== undefined, method === "POST", `${lane} ${name}`);
      for (const field of table?.body.fields.keys() ?? []) assert(table!.body.sources.has(field), `${name}.${field}`);
    }
  }
});
