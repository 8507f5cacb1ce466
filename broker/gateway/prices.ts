/**
 * What tokens cost. The rows are data (broker/gateway/prices.json, dated), and a row can be
 * added or overridden from a file of the same form.
 *
 * A model of a vendor's lane always has a price, never nothing: a name that is not listed is looked up without its
 * date, without its provider, by the longest listed prefix, and at last costs what the dearest of its family costs.
 * Only a self-hosted endpoint can have models without a price.
 */

import * as v from "valibot";
import { TaskdError } from "../../lib/errors.ts";
import type { Lane } from "../agents.ts";
import builtin from "./prices.json" with { type: "json" };
import type { Bound } from "./metering/estimate.ts";
import { type Metered, totalInput, type Usage } from "./metering/usage.ts";
import { parseJson } from "../../lib/text/json.ts";

export type PricedLane = Exclude<Lane, "compat">;

const usd = v.pipe(v.number(), v.finite(), v.minValue(0));
const rates = {
  input: usd,
  input_audio: v.exactOptional(usd),
  cache_read: v.exactOptional(usd),
  cache_write_5m: v.exactOptional(usd),
  cache_write_1h: v.exactOptional(usd),
  output: usd,
};

const RowSchema = v.strictObject({
  model: v.pipe(v.string(), v.nonEmpty()),
  since: v.exactOptional(v.pipe(v.string(), v.isoDate())),
  ...rates,
  /** The most tokens of one answer; {@linkcode DEFAULT_MAX_OUTPUT} where it is not listed. */
  max_output: v.exactOptional(v.pipe(v.number(), v.safeInteger(), v.minValue(1))),
  long_context: v.exactOptional(v.strictObject({ above: v.pipe(v.number(), v.safeInteger()), ...rates })),
});
const rows = v.array(RowSchema);
const FileSchema = v.strictObject({
  as_of: v.exactOptional(v.pipe(v.string(), v.isoDate())),
  unit: v.exactOptional(v.literal("USD per 1,000,000 tokens")),
  source: v.exactOptional(v.string()),
  lanes: v.strictObject({
    vendor_a: v.exactOptional(rows),
    vendor_b: v.exactOptional(rows),
    vendor_c: v.exactOptional(rows),
  }),
});

/** Rates in USD per million tokens. A rate that is missing is that of plain input. */
export type TokenPrice = Omit<PriceRow, "model" | "since">;
export type PriceRow = v.InferOutput<typeof RowSchema>;
export type PriceFile = v.InferOutput<typeof FileSchema>;

export type PriceMatch = "exact" | "without date" | "without provider" | "prefix" | "dearest of family";

export interface FoundPrice {
  price: TokenPrice;
  match: PriceMatch;
}

/** Prices of a self-hosted endpoint, from the setting `compat.prices`. */
export type CompatPrices = Readonly<Record<string, { readonly input: number; readonly output: number }>>;

/** The largest limit of the models that are listed. */
const DEFAULT_MAX_OUTPUT = 128_000;

/** What Anthropic adds for inference that has to stay in the United States. */
const US_ONLY_FACTOR = 1.1;
/**
 * The dearest factors at which OpenAI and Google sell priority, and Anthropic its fast mode. Requests for these are
 * refused; a project's own setting can still lead to them, and then the figure must not be too low.
 */
const TIER_FACTORS: ReadonlyMap<string, number> = new Map([["priority", 2.5], ["fast", 6]]);

/** Of these, what a project can have without a word in the request: Anthropic sells its fast mode by request alone. */
const DEAREST_FACTORS: Readonly<Record<Lane, number>> = {
  vendor_a: US_ONLY_FACTOR,
  vendor_b: TIER_FACTORS.get("priority")!,
  vendor_c: TIER_FACTORS.get("priority")!,
  compat: TIER_FACTORS.get("priority")!,
};

/** Reads a price file; throws `corrupt`, naming the place. `name` is for the message. */
export function parsePriceFile(text: string, name: string): PriceFile {
  const json = parseJson(text);
  if (json === undefined) throw new TaskdError("corrupt", `Cannot read prices from ${name}: it is not JSON`);
  const result = v.safeParse(FileSchema, json);
  if (result.success) return result.output;
  const issue = result.issues[0];
  throw new TaskdError("corrupt", `Cannot read prices from ${name}: ${v.getDotPath(issue) ?? "it"}: ${issue.message}`, {
    hint: 'The form is {"lanes": {"vendor_b": [{"model": "name", "input": 3, "output": 12}]}}, USD per million tokens',
  });
}

export class PriceBook {
  readonly #lanes: Readonly<Record<PricedLane, Map<string, PriceRow[]>>>;
  readonly #compat: CompatPrices;
  readonly #now: () => number;

  /**
   * @param options.now Wall-clock milliseconds; rows can begin on a date.
   * @param options.overrides Rows that are added, or replace those of the same model.
   */
  constructor(options: { now: () => number; overrides?: PriceFile; compat?: CompatPrices }) {
    this.#now = options.now;
    this.#compat = options.compat ?? {};
    const lane = (name: PricedLane) => byModel(builtin.lanes[name], options.overrides?.lanes[name] ?? []);
    this.#lanes = { vendor_a: lane("vendor_a"), vendor_b: lane("vendor_b"), vendor_c: lane("vendor_c") };
  }

  /** The price of a model; undefined only for a self-hosted endpoint, where it is neither listed nor has a `default`. */
  priceOf(lane: Lane, model: string): FoundPrice | undefined {
    if (lane === "compat") return this.#compatPrice(model);
    for (const [name, match] of spellings(model)) {
      const price = this.#current(lane, name);
      if (price) return { price, match };
    }
    const [bare] = spellings(model).at(-1)!;
    const prefix = [...this.#lanes[lane].keys()]
      .filter((name) => bare.startsWith(`${name}-`))
      .sort((a, b) => b.length - a.length)[0];
    const price = prefix === undefined ? undefined : this.#current(lane, prefix);
    return price ? { price, match: "prefix" } : { price: this.#dearest(lane, bare), match: "dearest of family" };
  }

  /**
   * What an answer cost, in USD; undefined when it cannot be priced, because it carried no usage or its model has no
   * price. Of the model that was asked and the one that answered, the dearer counts.
   */
  costOf(lane: Lane, asked_model: string, metered: Metered): number | undefined {
    if (metered.used.length === 0) return undefined;
    let total = 0;
    for (const { model, usage } of metered.used) {
      const prices = this.#pricesFor(
        lane,
        model ?? asked_model,
        model === undefined ? metered.served_model : undefined,
      );
      if (prices.length === 0) return undefined;
      total += Math.max(...prices.map((price) => cost(price, usage)));
    }
    return total * (metered.region === "us" ? US_ONLY_FACTOR : 1) * (TIER_FACTORS.get(metered.service_tier ?? "") ?? 1);
  }

  /**
   * The most that a request can cost, all of its input at the dearest rate and, unless it says otherwise, at the dearest
   * tier and place that a project can have by default; undefined for a model without a price.
   */
  boundOf(lane: Lane, model: string, bound: Bound): number | undefined {
    const price = this.priceOf(lane, model)?.price;
    if (!price) return undefined;
    const { input_tokens, max_output = 0, answers } = bound;
    const dearest = highestRates([rateOf(price, input_tokens)]);
    const input = Math.max(...Object.entries(dearest).map(([kind, rate]) => kind === "output" ? 0 : rate));
    const most = max_output > 0 ? max_output : price.max_output ?? DEFAULT_MAX_OUTPUT;
    const output_tokens = most * Math.max(1, answers);
    const factor = bound.at_list_price ? 1 : DEAREST_FACTORS[lane];
    return (input_tokens * input + output_tokens * dearest.output) * factor / 1_000_000;
  }

  /** The prices of the model that was asked and of the one that answered, as far as they are listed. */
  #pricesFor(lane: Lane, asked: string, served: string | undefined): TokenPrice[] {
    const found = [this.priceOf(lane, asked)];
    const answered = served === undefined ? undefined : this.priceOf(lane, served);
    // Names that no list has are other names of the model that was asked, at vendors and endpoints alike.
    if (answered && answered.match !== "dearest of family") found.push(answered);
    return found.flatMap((each) => each ? [each.price] : []);
  }

  #compatPrice(model: string): FoundPrice | undefined {
    const listed = Object.hasOwn(this.#compat, model);
    const key = listed ? model : "default";
    const row = Object.hasOwn(this.#compat, key) ? this.#compat[key]! : undefined;
    return row && { price: row, match: listed ? "exact" : "dearest of family" };
  }

  /** The row of exactly this name that holds today. */
  #current(lane: PricedLane, name: string): TokenPrice | undefined {
    const today = new Date(this.#now()).toISOString().slice(0, 10);
    return this.#lanes[lane].get(name)
      ?.filter((row) => (row.since ?? "") <= today)
      .sort((a, b) => (a.since ?? "") < (b.since ?? "") ? 1 : -1)[0];
  }

  /** The highest rate of each kind among the models that share the first word, or among all of the lane. */
  #dearest(lane: PricedLane, model: string): TokenPrice {
    const every = [...this.#lanes[lane].values()].flat();
    const family = every.filter((row) => familyOf(row.model) === familyOf(model));
    const rows = family.length > 0 ? family : every;
    const long = rows.flatMap((row) => row.long_context ?? []);
    if (long.length === 0) return highestRates(rows);
    const above = Math.min(...long.map((tier) => tier.above));
    return { ...highestRates(rows), long_context: { above, ...highestRates([...rows, ...long]) } };
  }
}

type Rates = Omit<TokenPrice, "long_context" | "max_output">;

function highestRates(rows: readonly Rates[]): Required<Rates> {
  const kinds = Object.keys(rates) as (keyof Rates)[];
  const highest = kinds.map((kind) => [kind, Math.max(...rows.map((row) => row[kind] ?? row.input))]);
  return Object.fromEntries(highest);
}

/** The rates for so much input; above the long-context bound they hold for all of it. */
function rateOf({ long_context, ...price }: TokenPrice, input_tokens: number): Rates {
  return long_context && input_tokens > long_context.above ? long_context : price;
}

export function cost(price: TokenPrice, usage: Usage): number {
  const rate = rateOf(price, totalInput(usage));
  const plain = usage.input_tokens - usage.input_audio_tokens;
  return (
    plain * rate.input +
    usage.input_audio_tokens * (rate.input_audio ?? rate.input) +
    usage.cache_read_tokens * (rate.cache_read ?? rate.input) +
    usage.cache_write_5m_tokens * (rate.cache_write_5m ?? rate.input) +
    usage.cache_write_1h_tokens * (rate.cache_write_1h ?? rate.cache_write_5m ?? rate.input) +
    usage.output_tokens * rate.output
  ) / 1_000_000;
}

function byModel(rows: readonly PriceRow[], overrides: readonly PriceRow[]): Map<string, PriceRow[]> {
  const replaced = new Set(overrides.map((row) => row.model));
  const map = new Map<string, PriceRow[]>();
  for (const row of [...rows.filter((row) => !replaced.has(row.model)), ...overrides]) {
    map.set(row.model, [...map.get(row.model) ?? [], row]);
  }
  return map;
}

function spellings(model: string): [string, PriceMatch][] {
  const name = model.toLowerCase();
  const undated = name.replace(/[-@](?:20\d{6}|20\d\d-\d\d-\d\d|\d\d-\d\d|latest)$/, "");
  const bare = undated.replace(/^.*\//, "").replace(/^(?:models|anthropic|openai|google)[.:]/, "");
  return [[name, "exact"], [undated, "without date"], [bare, "without provider"]];
}

function familyOf(model: string): string {
  return /^[a-z]+/.exec(model)?.[0] ?? "";
}
