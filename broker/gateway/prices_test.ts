import { assert, assertAlmostEquals, assertEquals, assertThrows } from "@std/assert";
import { TaskdError } from "../../lib/errors.ts";
import builtin from "./prices.json" with { type: "json" };
import { noUsage } from "./metering/usage.ts";
import { cost, parsePriceFile, PriceBook, type PricedLane, type PriceMatch } from "./prices.ts";

const book = new PriceBook({ now: () => Date.UTC(2026, 10, 20) });

const LOOKUPS: [PricedLane, string, PriceMatch, number][] = [
  ["vendor_a", "claude-sonnet-4-5", "exact", 3],
  ["vendor_a", "claude-sonnet-4-5-20250929", "without date", 3],
  ["vendor_a", "claude-haiku-4-5@20251001", "without date", 1],
  ["vendor_a", "Claude-Opus-4-1-20250805", "without date", 15],
  ["vendor_a", "anthropic/claude-opus-4-5", "without provider", 5],
  ["vendor_a", "anthropic/claude-opus-4-5-20251101", "without provider", 5],
  ["vendor_a", "claude-haiku-4-5-fast", "prefix", 1],
  ["vendor_a", "claude-next-9", "dearest of family", 15],
  ["vendor_a", "whatever", "dearest of family", 15],
  ["vendor_b", "gpt-5.1-2025-11-13", "without date", 1.25],
  ["vendor_b", "gpt-5-codex", "prefix", 1.25],
  ["vendor_b", "gpt-5-pro", "exact", 15],
  ["vendor_b", "gpt-5.1-codex-max", "prefix", 1.25],
  // gpt-5 is no prefix of another version's name.
  ["vendor_b", "gpt-5.99", "dearest of family", 30],
  ["vendor_b", "o3", "exact", 2],
  ["vendor_b", "o9-mega", "dearest of family", 150],
  ["vendor_c", "gemini-2.5-flash", "exact", 0.3],
  ["vendor_c", "models/gemini-2.5-pro", "without provider", 1.25],
  ["vendor_c", "gemini-2.5-flash-preview-09-2025", "prefix", 0.3],
  ["vendor_c", "gemini-9-ultra", "dearest of family", 2],
];

Deno.test("a model's price is found exactly, without date or provider, by prefix, or is the dearest", () => {
  for (const [lane, model, match, input] of LOOKUPS) {
    const found = book.priceOf(lane, model)!;
    assertEquals([model, found.match, found.price.input], [model, match, input]);
  }
});

Deno.test("no model of a vendor is free, in any kind of token", () => {
  for (const lane of ["vendor_a", "vendor_b", "vendor_c"] as const) {
    for (const model of [...builtin.lanes[lane].map((row) => row.model), "", "x", "constructor", "__proto__"]) {
      const { price } = book.priceOf(lane, model)!;
      for (const kind of Object.keys(noUsage())) {
        const usage = { ...noUsage(), input_tokens: kind === "input_audio_tokens" ? 1 : 0, [kind]: 1 };
        assert(cost(price, usage) > 0, `${model} ${kind}`);
      }
    }
  }
});

// conformance: b2.compat.prices b2.compat.unlisted
Deno.test("only a self-hosted endpoint has models without a price, unless there is a default", () => {
  const own = new PriceBook({ now: () => 0, compat: { listed: { input: 1, output: 2 } } });
  assertEquals(own.priceOf("compat", "listed")?.price, { input: 1, output: 2 });
  for (const model of ["other", "claude-sonnet-4-5", "constructor", "toString"]) {
    assertEquals(own.priceOf("compat", model), undefined);
  }
  const with_default = new PriceBook({ now: () => 0, compat: { default: { input: 3, output: 4 } } });
  assertEquals(with_default.priceOf("compat", "other")?.price, { input: 3, output: 4 });
});

Deno.test("caches cost a tenth, five quarters and twice of Anthropic's input", () => {
  const { price } = book.priceOf("vendor_a", "claude-opus-4-5")!;
  assertEquals([price.cache_read, price.cache_write_5m, price.cache_write_1h], [0.5, 6.25, 10]);
  const usage = {
    ...noUsage(),
    input_tokens: 10,
    cache_read_tokens: 100,
    cache_write_5m_tokens: 1000,
    cache_write_1h_tokens: 500,
    output_tokens: 7,
  };
  assertAlmostEquals(cost(price, usage), (10 * 5 + 100 * 0.5 + 1000 * 6.25 + 500 * 10 + 7 * 25) / 1e6, 1e-15);
});

Deno.test("above the long-context bound a whole request costs the higher rate; cached input counts", () => {
  const { price } = book.priceOf("vendor_a", "claude-sonnet-4-5")!;
  const at = { ...noUsage(), input_tokens: 100_000, cache_read_tokens: 100_000, output_tokens: 10 };
  assertAlmostEquals(cost(price, at), (100_000 * 3 + 100_000 * 0.3 + 10 * 15) / 1e6, 1e-12);
  const above = { ...at, input_tokens: 100_001 };
  assertAlmostEquals(cost(price, above), (100_001 * 6 + 100_000 * 0.6 + 10 * 22.5) / 1e6, 1e-12);
});

Deno.test("a row holds from its date on", () => {
  const priceOn = (year: number, month: number) =>
    new PriceBook({ now: () => Date.UTC(year, month, 1) }).priceOf("vendor_c", "gemini-3.6-flash")?.price.input;
  assertEquals([priceOn(2026, 11), priceOn(2027, 0)], [0.75, 1.5]);
});

Deno.test("the model that answered is billed where it is listed; dearer tiers and regions count", () => {
  const used = [{ usage: { ...noUsage(), output_tokens: 1_000_000 } }];
  const costs = (asked: string, more: object = {}) => book.costOf("vendor_a", asked, { used, complete: true, ...more });
  assertEquals(costs("claude-haiku-4-5"), 5);
  assertEquals(costs("claude-haiku-4-5", { served_model: "claude-opus-4-5-20251101" }), 25);
  assertEquals(costs("claude-haiku-4-5", { served_model: "an-unknown-name" }), 5);
  assertEquals(costs("claude-haiku-4-5", { region: "us" }), 5.5);
  assertEquals(costs("claude-haiku-4-5", { service_tier: "priority" }), 12.5);
  assertEquals(book.costOf("vendor_a", "claude-haiku-4-5", { used: [], complete: false }), undefined);
});

Deno.test("a file overrides and adds rows; a wrong one is refused with its place", () => {
  const overrides = parsePriceFile(
    '{"lanes":{"vendor_a":[{"model":"claude-next-9","input":1,"output":2},{"model":"claude-opus-4-5","input":9,"output":9}]}}',
    "prices.json",
  );
  const own = new PriceBook({ now: () => 0, overrides });
  assertEquals(own.priceOf("vendor_a", "claude-next-9-20270101")?.price.output, 2);
  assertEquals(own.priceOf("vendor_a", "claude-opus-4-5")?.price.input, 9);
  assertEquals(own.priceOf("vendor_a", "claude-sonnet-4-5")?.price.input, 3);
  const wrong = [
    "{",
    "[]",
    '{"lanes":{"vendor_a":[{"model":"x","input":-1,"output":2}]}}',
    '{"lanes":{"vendor_x":[]}}',
  ];
  for (const text of wrong) assertThrows(() => parsePriceFile(text, "prices.json"), TaskdError, "prices.json");
});

Deno.test("what a request could cost is never less than nothing, and grows with the answers asked for", () => {
  const book = new PriceBook({ now: () => Date.UTC(2026, 10, 20), compat: { m: { input: 1, output: 10 } } });
  const of = (max_output: number | undefined, answers = 1) =>
    book.boundOf("compat", "m", { input_tokens: 0, max_output, answers, at_list_price: true });
  const whole_usd = of(undefined);
  for (const none of [-1, 0, -1e8]) assertEquals([of(none), of(none, 3)], [whole_usd, 3 * whole_usd!]);
  assertEquals([of(100_000), of(100_000, 2), of(100_000, -2)], [1, 2, 1]);
});
