/**
 * Asks the gateway for chat completions, without streaming: usage is then part of every answer, and what is spent can
 * be metered. Answers that ask to retry later are retried within bounds; every other ends the run with an outcome
 * that names its cause.
 */

import type { Clock } from "../../lib/clock.ts";
import { type ChatMessage, type Completion, parseCompletion } from "./chat.ts";
import type { AgentOutcome, AgentProgress } from "./progress.ts";
import { parseJson } from "../../lib/text/json.ts";
import { readText } from "../../lib/http/body.ts";

const MAX_ANSWER_BYTES = 8 << 20;
/** Milliseconds one request may take: slow local models need minutes. */
const REQUEST_MS = 10 * 60_000;
const MAX_ATTEMPTS = 6;
/** The longest Retry-After that is obeyed; a longer one ends the run. */
const MAX_WAIT_MS = 120_000;
/** First wait after a failure without Retry-After; doubles. */
const BACKOFF_MS = 1_000;

export class ModelFailure extends Error {
  override name = "ModelFailure";
  readonly outcome: AgentOutcome;

  constructor(outcome: AgentOutcome, message: string) {
    super(message);
    this.outcome = outcome;
  }
}

export interface ModelClientOptions {
  gateway_url: string;
  token: string;
  model: string;
  clock: Clock;
  fetch: typeof fetch;
  onProgress(row: AgentProgress): void;
}

const TRANSIENT = new Set([408, 409, 425, 429, 500, 502, 503, 504, 529]);

/** What the gateway's own problems mean that end the run; the endpoint may answer the same status for its own reasons. */
const FINAL: ReadonlyMap<string, [AgentOutcome, string]> = new Map([
  ["urn:taskd:problem:unauthorized", [
    "token_refused",
    "the gateway does not know the task's token; the task has ended",
  ]],
  ["urn:taskd:problem:budget_exhausted", ["budget_exhausted", "the task's budget is spent"]],
  ["urn:taskd:problem:request_cap", ["request_cap", "the task's requests are used up"]],
]);

export class ModelClient {
  readonly #options: ModelClientOptions;
  requests = 0;

  constructor(options: ModelClientOptions) {
    this.#options = options;
  }

  /** The model's answer to a conversation; throws {@linkcode ModelFailure}. */
  async complete(messages: readonly ChatMessage[], tools: readonly unknown[]): Promise<Completion> {
    const { model, clock, onProgress } = this.#options;
    const body = JSON.stringify({ model, messages, tools, tool_choice: "auto", stream: false });
    for (let attempt = 1;; attempt++) {
      const answer = await this.#ask(body);
      if ("completion" in answer) return answer.completion;
      const wait_ms = answer.wait_ms ?? BACKOFF_MS * 2 ** (attempt - 1);
      if (attempt === MAX_ATTEMPTS || wait_ms > MAX_WAIT_MS) {
        throw new ModelFailure("model_unavailable", `No answer after ${attempt} attempts: ${answer.why}`);
      }
      onProgress({ type: "waiting", wait_ms, summary: answer.why });
      await clock.sleep(wait_ms);
    }
  }

  async #ask(body: string): Promise<{ completion: Completion } | { why: string; wait_ms?: number }> {
    const { gateway_url, token } = this.#options;
    this.requests++;
    const signal = AbortSignal.timeout(REQUEST_MS);
    let response: Response;
    let text: string | undefined;
    try {
      response = await this.#options.fetch(`${gateway_url}/v1/chat/completions`, {
        method: "POST",
        headers: {
          "authorization": `Bearer ${token}`,
          "content-type": "application/json",
          "accept-encoding": "identity",
        },
        body,
        // The gateway redirects nowhere; what does is not the gateway.
        redirect: "error",
        signal,
      });
      text = await readText(response, MAX_ANSWER_BYTES);
    } catch (error) {
      return { why: `the gateway cannot be reached (${error instanceof Error ? error.name : "unknown"})` };
    }
    if (response.ok) {
      const completion = text === undefined ? undefined : parseCompletion(parseJson(text));
      if (completion !== undefined) return { completion };
      throw new ModelFailure("bad_model_output", "The endpoint's answer is not a chat completion");
    }
    const { status } = response;
    const problem = parseJson(text ?? "");
    const why = `the answer was ${status}${describe(problem)}`;
    const final = FINAL.get(typeOf(problem));
    const again = response.headers.get("x-should-retry") !== "false";
    if (final === undefined && again && TRANSIENT.has(status)) {
      const wait_ms = retryAfter(response.headers.get("retry-after"), this.#options.clock);
      return { why, ...(wait_ms === undefined ? {} : { wait_ms }) };
    }
    const [outcome, meaning] = final ?? ["request_refused", "the request was refused"];
    throw new ModelFailure(outcome, `The run ends: ${meaning}; ${why}`);
  }
}

function retryAfter(header: string | null, clock: Clock): number | undefined {
  if (header === null) return undefined;
  if (/^\d{1,9}(\.\d+)?$/.test(header)) return Number(header) * 1_000;
  const at = Date.parse(header);
  return Number.isNaN(at) ? undefined : Math.max(0, at - clock.now());
}

function typeOf(body: unknown): string {
  const type = typeof body === "object" && body !== null && "type" in body ? body.type : undefined;
  return typeof type === "string" ? type : "";
}

/** The text of an error body: RFC 9457's detail, or the vendors' error.message. */
function describe(body: unknown): string {
  if (typeof body !== "object" || body === null) return "";
  const { detail, error } = body as { detail?: unknown; error?: { message?: unknown } | null };
  const text = typeof detail === "string" ? detail : error?.message;
  return typeof text === "string" ? `: ${text.slice(0, 500)}` : "";
}
