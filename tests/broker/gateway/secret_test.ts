import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { gzipSync } from "node:zlib";
import { BODIES, harness, RawClient, rawPost } from "./harness.ts";
import { ANTHROPIC, json, pieces, REAL_KEY, sse, type VendorServer, vendorServer } from "./vendor_server.ts";

const PATH = "/v1/messages";

/** Answers of a vendor, or of what stands in its place, that repeat what they were sent. */
function echoing(vendor: VendorServer): [string, VendorServer["answer"]][] {
  const event = sse([{ type: "ping", echo: `Bearer ${REAL_KEY}` }, ...ANTHROPIC.stream]);
  const at = event.indexOf(REAL_KEY);
  const escaped = [...REAL_KEY].map((char) => `\\u00${char.charCodeAt(0).toString(16)}`).join("");
  const cuts = [0, 1, 5, REAL_KEY.length - 1, REAL_KEY.length].map((offset) => event.slice(0, at + offset));
  return [
    ["in JSON", (response, request, seen) => json({ headers: seen.headers })(response, request, seen)],
    ["in an error", json(`{"error":{"message":"Incorrect API key provided: ${REAL_KEY}"}}`, 401)],
    ["in a header", (response) => {
      response.writeHead(302, { "location": `https://x.example/?key=${REAL_KEY}`, "x-echo": REAL_KEY });
      response.end(REAL_KEY);
    }],
    ["in text, often", pieces("text/plain", [REAL_KEY.repeat(50), "x", REAL_KEY])],
    ...cuts.map((first): [string, VendorServer["answer"]] => [
      `in an event cut at ${first.length - at}`,
      pieces("text/event-stream", [first, event.slice(first.length)]),
    ]),
    ["byte by byte", pieces("text/event-stream", [...event])],
    ["escaped in JSON", pieces("application/json", [`{"echo":"${escaped}"}`])],
    [
      "escaped and cut",
      pieces("text/event-stream", [`data: {"echo":"${escaped.slice(0, 40)}`, `${escaped.slice(40)}"}\n\n`]),
    ],
    ["in base64", json({ echo: btoa(`Bearer ${REAL_KEY}`) })],
    ["in a header's name", (response) => {
      response.socket?.end(
        `HTTP/1.1 200 OK\r\nx-${REAL_KEY.toUpperCase()}: 1\r\n${REAL_KEY}: 2\r\ncontent-length: 2\r\n\r\n{}`,
      );
    }],
    ["in a header, escaped", (response) => {
      response.writeHead(200, {
        "content-type": "application/json",
        "x-echo": encodeURIComponent(escaped),
        "x-two": escaped,
      });
      response.end("{}");
    }],
    ["in a trailer", (response) => {
      response.writeHead(200, { "content-type": "application/json", "trailer": `x-echo, ${REAL_KEY}` });
      response.write("{}");
      response.addTrailers({ "x-echo": REAL_KEY, [`x-${REAL_KEY}`]: "1" });
      response.end();
    }],
    ["in the reason", (response) => {
      response.socket?.end(`HTTP/1.1 401 ${REAL_KEY}\r\ncontent-length: 2\r\n\r\n{}`);
    }],
    ["packed", (response) => {
      response.writeHead(200, { "content-type": "application/json", "content-encoding": "gzip" });
      response.end(gzipSync(JSON.stringify({ echo: REAL_KEY })));
    }],
    ["packed in an unknown way", (response) => {
      response.writeHead(400, { "content-type": "application/json", "content-encoding": "x" });
      response.end(REAL_KEY);
    }],
    ["and hangs up", (response) => {
      response.writeHead(200, { "content-type": "text/event-stream", "content-length": "1000" });
      response.write(`data: ${REAL_KEY}\n\n`, () => response.destroy());
    }],
    ["in a broken head", (response) => {
      response.socket?.end(`HTTP/1.1 200 OK\r\nx-key: ${REAL_KEY}\r\nbad header ${REAL_KEY}\r\n\r\n`);
    }],
    ["nothing", () => void vendor.seen],
  ];
}

Deno.test("the real key is in nothing that is written: answers, their heads, errors, logs, figures", async () => {
  const written: string[] = [];
  const console_log = console.log, console_error = console.error;
  console.log = console.error = (...args: unknown[]) => void written.push(args.map(String).join(" "));
  try {
    await using gate = await harness(json({}), { limits: { answer_ms: 400 } });
    const lease = gate.lease("vendor_a", { onSpend: (spend) => written.push(JSON.stringify(spend)) });
    for (const [name, answer] of echoing(gate.vendor)) {
      gate.vendor.answer = answer;
      using client = await RawClient.connect(gate.url);
      await client.send(rawPost(PATH, lease.token, JSON.stringify(BODIES.messages), "connection: close\r\n"));
      const text = await client.until(undefined);
      assert(text.startsWith("HTTP/1.1 "), name);
      written.push(text);
    }
    assert(gate.vendor.seen.every((seen) => JSON.stringify(seen).includes(REAL_KEY)), "it did go out each time");
    written.push(...gate.logged, ...gate.settled.map((settlement) => JSON.stringify(settlement)));
    written.push(
      JSON.stringify(await lease.end()),
      Deno.inspect(lease),
      JSON.stringify(gate.gateway),
      Deno.inspect(gate.gateway),
    );
  } finally {
    console.log = console_log;
    console.error = console_error;
  }
  const everything = written.join("\n");
  assertStringIncludes(everything, "*".repeat(REAL_KEY.length), "where it stood there are asterisks");
  assert(!everything.includes(REAL_KEY));
  assert(!everything.toLowerCase().includes(REAL_KEY));
  for (const form of [btoa(REAL_KEY), btoa(`Bearer ${REAL_KEY}`), encodeURIComponent(REAL_KEY), "\\u0073"]) {
    assert(!everything.includes(form), form);
  }
});

Deno.test("a key that cannot stand in a header, and a source that quotes its bearer, leak nothing", async () => {
  const bad_key = `${REAL_KEY}\nsecond line`;
  await using vendor = await vendorServer(json({}));
  const failing = () => Promise.reject(new Error(`refresh of ${REAL_KEY} failed`));
  await using gate = await harness(json({}), {
    upstreams: {
      vendor_a: { base_url: vendor.url, api_key: bad_key },
      vendor_b: { base_url: vendor.url, subscription: { source: { current: failing, renew: failing } } },
    },
  });
  const lease = gate.lease("vendor_a");
  const broken = await gate.post(lease, PATH, BODIES.messages);
  const text = await broken.text();
  assertEquals(broken.status, 500);
  assertEquals(gate.logged.length, 1);
  const source = await gate.post(gate.lease("vendor_b", { auth: "subscription" }), "/v1/responses", BODIES.responses);
  const problem = await source.text();
  assertEquals([source.status, JSON.parse(problem).code], [502, "credential_failed"]);
  for (const written of [text, problem, ...gate.logged]) {
    assert(!written.includes(REAL_KEY) && !written.includes("second line"));
  }
  assertEquals([lease.spend().in_flight, vendor.seen.length], [0, 0]);
});

Deno.test("the task's token is in no answer, log or figure, and the gateway keeps only its digest", async () => {
  await using gate = await harness((response, request, seen) => json(seen)(response, request, seen));
  const lease = gate.lease("vendor_a");
  const response = await gate.post(lease, PATH, BODIES.messages);
  const written = [await response.text(), ...gate.logged, JSON.stringify(gate.settled), Deno.inspect(gate.gateway)];
  for (const text of written) assert(!text.includes(lease.token));
});
