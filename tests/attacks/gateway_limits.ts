/** Promises of the model gateway about money and about the operator's key. */

import { bearer, GatewayBench, type VendorAnswer } from "./_gateway_bench.ts";
import { BODIES, LANE_PATHS } from "./inputs/gateway.ts";
import type { CommonPromise } from "./context.ts";

const PATH = LANE_PATHS.vendor_a;

const DEAR = {
  id: "msg_1",
  type: "message",
  role: "assistant",
  model: "claude-sonnet-4-5-20250929",
  content: [{ type: "text", text: "x" }],
  stop_reason: "end_turn",
  usage: { input_tokens: 1_000, output_tokens: 2_000 },
};

/** Answers of a vendor that repeat what they were sent. */
const ECHOES: Readonly<Record<string, VendorAnswer>> = {
  "in JSON": (key) => Response.json({ authorization: key, "x-api-key": key }),
  "in an error": (key) => Response.json({ error: { message: `Incorrect API key provided: ${key}` } }, { status: 401 }),
  "in a header": (key) =>
    new Response(key, { status: 302, headers: { location: `https://x.example/?key=${key}`, "x-echo": key } }),
  "in text, often": (key) => new Response(key.repeat(50)),
  "in an event, cut in two": (key) => {
    const [first, second] = [`data: {"echo":"${key.slice(0, 9)}`, `${key.slice(9)}"}\n\n`];
    const parts = [first, second].map((part) => new TextEncoder().encode(part));
    const body = new ReadableStream<Uint8Array>({
      pull(controller) {
        const part = parts.shift();
        if (part === undefined) controller.close();
        else controller.enqueue(part);
      },
    });
    return new Response(body, { headers: { "content-type": "text/event-stream" } });
  },
};

export const LIMIT_PROMISES: readonly CommonPromise[] = [
  {
    id: "gateway.request_cap",
    promise: "A task makes as many requests as it may and not one more",
    attacks: "A burst of parallel requests beyond task_max_requests",
    async run(trial, context) {
      await using bench = await GatewayBench.start(context);
      const lease = bench.lease("vendor_a", { max_requests: 3 });
      const burst = Array.from({ length: 12 }, () => bench.post(PATH, BODIES.messages, bearer(lease)));
      const answers = await Promise.all(burst);
      const passed = answers.filter(({ status }) => status === 200).length;
      trial.control("requests below the cap", passed > 0, `${passed} of 3`);
      const went_out = bench.arrived.length;
      trial.attempt("12 at once with a cap of 3", passed === 3 && went_out === 3, `${went_out} went out`);
      const over = answers.filter(({ code, retry_after }) => code === "request_cap" && retry_after === null).length;
      trial.attempt("refusals that invite no repetition", over === 9, `${over} of 9`);
    },
  },
  {
    id: "gateway.in_flight_cap",
    promise: "A burst has no more requests in flight than task_max_inflight",
    attacks: "20 requests at once while the vendor does not answer",
    async run(trial, context) {
      await using bench = await GatewayBench.start(context);
      const open = Promise.withResolvers<Response>();
      bench.answer = () => open.promise.then((response) => response.clone());
      const lease = bench.lease("vendor_a", { max_inflight: 2 });
      const burst = Array.from({ length: 20 }, () => bench.post(PATH, BODIES.messages, bearer(lease)));
      // The refused ones end by themselves; then the vendor answers the others.
      let refused = 0;
      const seen = Promise.withResolvers<void>();
      for (const one of burst) void one.then(() => ++refused === 18 && seen.resolve(), seen.reject);
      await Promise.race([seen.promise, context.clock.sleep(context.timeout.timeout_ms)]);
      trial.attempt("20 at once with a cap of 2", bench.arrived.length <= 2, `${bench.arrived.length} went out`);
      open.resolve(Response.json({}));
      const answers = await Promise.all(burst);
      const capped = answers.filter(({ code, retry_after }) => code === "in_flight_cap" && retry_after === "1").length;
      trial.attempt("refusals with Retry-After", capped === 18, `${capped} of 18`);
      trial.control("requests below the cap", answers.some(({ status }) => status === 200));
    },
  },
  {
    id: "gateway.budget",
    promise: "Once a task's budget is spent, nothing more goes out for it",
    attacks: "Requests after the budget is crossed, a budget of nothing, a reservation larger than the budget",
    async run(trial, context) {
      await using bench = await GatewayBench.start(context);
      bench.answer = () => Response.json(DEAR);
      const lease = bench.lease("vendor_a", { budget_usd: 0.02 });
      const first = await bench.post(PATH, BODIES.messages, bearer(lease));
      trial.controlEquals("a request within the budget", first.status, 200);
      const before = bench.arrived.length;
      for (let at = 0; at < 3; at++) {
        const { status, code } = await bench.post(PATH, BODIES.messages, bearer(lease));
        trial.expect("a request after the budget was crossed", `${status} ${code}`, "402 budget_exhausted");
      }
      for (const caps of [{ budget_usd: 0 }, { budget_usd: 1, max_request_cost_usd: 1.5 }]) {
        const { status } = await bench.post(PATH, BODIES.messages, bearer(bench.lease("vendor_a", caps)));
        trial.expect(JSON.stringify(caps), status, 402);
      }
      trial.attempt("requests that reached the vendor", bench.arrived.length === before);
    },
  },
  {
    id: "gateway.key",
    promise: "The operator's key is in no answer, no error and no log, even when the vendor repeats it",
    attacks: "A vendor that echoes the key in JSON, errors, headers, redirects, text and streams, cut in two",
    async run(trial, context) {
      await using bench = await GatewayBench.start(context);
      const lease = bench.lease("vendor_a");
      for (const [where, answer] of Object.entries(ECHOES)) {
        bench.answer = answer;
        const { text } = await bench.post(PATH, BODIES.messages, bearer(lease));
        trial.attempt(`the key ${where}`, !text.includes(bench.key) && !text.includes(btoa(bench.key)));
      }
      const went_out = bench.arrived.filter(({ headers }) => headers.includes(bench.key)).length;
      trial.control("the key at the vendor", went_out === Object.keys(ECHOES).length, `${went_out} times`);
      const written = [...bench.logged, JSON.stringify(await lease.end()), Deno.inspect(lease)].join("\n");
      trial.attempt("the key in logs and figures", !written.includes(bench.key));
      trial.attempt("the task's token at the vendor", !JSON.stringify(bench.arrived).includes(lease.token));
    },
  },
  {
    id: "gateway.fields",
    promise: "Of a request's headers only those of a list reach the vendor",
    attacks: "Cookies, forwarding, fields that choose an organization or a project to bill, the vendor's own host",
    async run(trial, context) {
      await using bench = await GatewayBench.start(context);
      const sent = {
        "cookie": "evil=1",
        "x-forwarded-for": "203.0.113.9",
        "forwarded": "for=203.0.113.9",
        "openai-organization": "org-evil",
        "openai-project": "proj-evil",
        "x-goog-user-project": "proj-evil",
        "anthropic-organization-id": "org-evil",
        "x-evil": "evil",
      };
      for (const lane of ["vendor_a", "vendor_b"] as const) {
        const body = lane === "vendor_a" ? BODIES.messages : BODIES.responses;
        const { status } = await bench.post(LANE_PATHS[lane], body, { ...bearer(bench.lease(lane)), ...sent });
        trial.controlEquals(`a request of ${lane}`, status, 200);
      }
      const arrived = bench.arrived.map(({ headers }) => headers).join();
      for (const name of Object.keys(sent)) {
        trial.attempt(name, !arrived.includes(`"${name}"`), "it reached the vendor");
      }
    },
  },
];
