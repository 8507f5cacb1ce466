import { assertEquals, assertMatch, assertStringIncludes, assertThrows } from "@std/assert";
import { MAX_WILDCARD_NAMES } from "../../../broker/egress/admissions.ts";
import { ADDRESS_LITERALS, BROKEN_TARGETS, LOOKALIKE_NAMES, OTHER_PORTS } from "../../attacks/inputs/egress.ts";
import { TaskdError } from "../../../lib/errors.ts";
import { Bench, connectHead, credentials, Server } from "./_harness.ts";

const LIST = { "example.com": [443], "*.wild.example": [443], "xn--bcher-kva.example": [443] };

// conformance: b1.proxy_port
Deno.test("a denied name causes no DNS query", async () => {
  await using bench = await Bench.start({ list: LIST });
  const task = bench.admit();
  for (const host of LOOKALIKE_NAMES) {
    assertEquals([host, await bench.connect(`${host}:443`, task)], [host, "403 not_listed"]);
    const { status } = await bench.ask(`GET http://${host}/ HTTP/1.1\r\nHost: ${host}\r\n${credentials(task)}\r\n\r\n`);
    assertEquals([host, status], [host, 403]);
  }
  assertEquals(bench.lookups, []);
});

// conformance: b1.proxy_port
Deno.test("a host allowed on 443 is refused on 22, 25, 80 and every other port, without a DNS query", async () => {
  await using bench = await Bench.start({ list: LIST });
  const task = bench.admit();
  for (const port of OTHER_PORTS) {
    assertEquals(await bench.connect(`example.com:${port}`, task), "403 port_not_listed");
  }
  assertEquals(bench.lookups, []);
});

Deno.test("an address is refused in every notation, without a DNS query", async () => {
  await using bench = await Bench.start({ list: LIST });
  const task = bench.admit();
  for (const target of ADDRESS_LITERALS) {
    assertEquals([target, await bench.connect(target, task)], [target, "403 address_literal"]);
    const absolute = `GET http://${target}/ HTTP/1.1\r\nHost: ${target}\r\n${credentials(task)}\r\n\r\n`;
    assertEquals([target, (await bench.ask(absolute)).status], [target, 403]);
  }
  assertEquals(bench.lookups, []);
});

Deno.test("userinfo, escapes, wildcards and broken ports are refused, without a DNS query", async () => {
  await using bench = await Bench.start({ list: LIST });
  const task = bench.admit();
  for (const target of BROKEN_TARGETS) {
    const verdict = await bench.connect(target, task);
    assertEquals([target, /^40[03] (bad_target|address_literal)$/.test(verdict)], [target, true], verdict);
  }
  assertEquals(bench.lookups, []);
});

Deno.test("one host is one host: upper case, trailing dot and punycode are looked up in one form", async () => {
  await using server = Server.echo();
  await using bench = await Bench.start({ list: LIST, ports: { 443: server.port } });
  const task = bench.admit();
  for (const target of ["EXAMPLE.com:443", "example.com.:443", "XN--BCHER-KVA.example:443", "a.WILD.example.:443"]) {
    assertEquals([target, await bench.connect(target, task)], [target, "200"]);
  }
  assertEquals(bench.lookups, ["example.com", "example.com", "xn--bcher-kva.example", "a.wild.example"]);
});

Deno.test("names below a wildcard cannot carry data out without end", async () => {
  await using bench = await Bench.start({ list: LIST, resolve: () => Promise.resolve([]) });
  const task = bench.admit();
  const reasons = new Map<string, number>();
  for (let i = 0; i < MAX_WILDCARD_NAMES + 8; i++) {
    const verdict = await bench.connect(`chunk-${i}.wild.example:443`, task);
    reasons.set(verdict, (reasons.get(verdict) ?? 0) + 1);
  }
  assertEquals([...reasons], [["502 name_not_found", MAX_WILDCARD_NAMES], ["403 too_many_names", 8]]);
  // What was used before can be used again, and other tasks have names of their own.
  assertEquals(await bench.connect("chunk-0.wild.example:443", task), "502 name_not_found");
  assertEquals(await bench.connect("chunk-new.wild.example:443", bench.admit("task2")), "502 name_not_found");
});

Deno.test("without credentials, or with wrong ones, nothing is decided and nothing looked up: 407", async () => {
  await using bench = await Bench.start({ list: LIST });
  const task = bench.admit();
  const other = bench.admit("task2");
  const basic = (text: string) => `Proxy-Authorization: Basic ${btoa(text)}`;
  for (
    const [field, code] of [
      ["X: y", "credentials_missing"],
      ["Authorization: Basic eDp5", "credentials_missing"],
      [basic(`${task.username}:`), "credentials_wrong"],
      [basic(`${task.username}:${other.password}`), "credentials_wrong"],
      [basic(`${other.username}:${task.password}`), "credentials_wrong"],
      [basic(`stranger:${task.password}`), "credentials_wrong"],
      [basic(`:${task.password}`), "credentials_wrong"],
      [basic(task.password), "credentials_wrong"],
      [basic(`${task.username}:${task.password} `), "credentials_wrong"],
      [basic(`${task.username}:${task.password.toUpperCase()}`), "credentials_wrong"],
      [`Proxy-Authorization: Bearer ${task.password}`, "credentials_wrong"],
      ["Proxy-Authorization: Basic ***", "credentials_wrong"],
      [`${credentials(task)}\r\n${credentials(task)}`, "credentials_wrong"],
    ] as const
  ) {
    const { status, head, body } = await bench.ask(`CONNECT example.com:443 HTTP/1.1\r\n${field}\r\n\r\n`);
    assertEquals([field, status, JSON.parse(body).code], [field, 407, code]);
    assertStringIncludes(head, 'Proxy-Authenticate: Basic realm="taskd"');
  }
  assertEquals(bench.lookups, []);
});

Deno.test("a client that asks first and proves itself on the same connection is served", async () => {
  await using server = Server.echo();
  await using bench = await Bench.start({ list: LIST, ports: { 443: server.port } });
  const task = bench.admit();
  await using client = await bench.client();
  await client.send("CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n");
  assertEquals((await client.response()).status, 407);
  assertEquals(await client.tunnel("example.com:443", task), 200);
});

Deno.test("a connection is one task's: another's credentials on it are refused", async () => {
  await using bench = await Bench.start({ list: LIST });
  const [one, two] = [bench.admit("one"), bench.admit("two", { "two.example": [443] })];
  await using client = await bench.client();
  assertEquals(await client.tunnel("evil.com:443", one), 403);
  assertEquals(await client.tunnel("two.example:443", two), 407);
});

Deno.test("a task's extra hosts are its own", async () => {
  await using server = Server.echo();
  await using bench = await Bench.start({ list: LIST, ports: { 443: server.port } });
  const [one, two] = [bench.admit("one", { "extra.example": [443] }), bench.admit("two")];
  assertEquals(await bench.connect("extra.example:443", one), "200");
  assertEquals(await bench.connect("extra.example:443", two), "403 not_listed");
});

Deno.test("an ended task's password is worth nothing, and its tunnels are closed", async () => {
  await using server = Server.echo();
  await using bench = await Bench.start({ list: { "example.com": [5432] }, ports: { 5432: server.port } });
  const task = bench.admit();
  await using client = await bench.client();
  assertEquals(await client.tunnel("example.com:5432", task), 200);
  await client.send("before");
  assertEquals(await client.until("before"), "before");
  task.end();
  assertEquals(await client.rest(), "");
  assertEquals(await bench.connect("example.com:5432", task), "407 credentials_wrong");
  // The same id may be admitted again, under another password.
  const again = bench.admit();
  assertEquals(await bench.connect("example.com:5432", task), "407 credentials_wrong");
  assertEquals(await bench.connect("example.com:5432", again), "200");
});

Deno.test("a task is admitted once, under an id that Basic authentication can carry", async () => {
  await using bench = await Bench.start({ list: LIST });
  bench.admit("twice");
  assertEquals(assertThrows(() => bench.admit("twice"), TaskdError).code, "already_exists");
  for (const id of ["", "a:b", "a b", "a\nb", "a@b", "a/b", "x".repeat(65)]) {
    assertEquals([id, assertThrows(() => bench.admit(id), TaskdError).code], [id, "invalid_request"]);
  }
});

Deno.test("a refusal names host, reason and setting, and sends back nothing that was sent", async () => {
  await using bench = await Bench.start({ list: LIST });
  const task = bench.admit();
  const { head, body } = await bench.ask(connectHead("Evil.COM.:443", task));
  assertMatch(head, /^HTTP\/1\.1 403 Host not in egress\.yaml\r\n/);
  assertStringIncludes(head, "Content-Type: application/problem+json");
  assertStringIncludes(head, "Proxy-Status: taskd; error=http_request_denied");
  const problem = JSON.parse(body);
  assertEquals([problem.status, problem.code, problem.host, problem.port], [403, "not_listed", "evil.com", 443]);
  assertStringIncludes(problem.detail, "evil.com port 443");
  assertStringIncludes(problem.hint, "egress.yaml");
  const raw = await bench.ask(`CONNECT <script>alert(1)</script>:443 HTTP/1.1\r\n${credentials(task)}\r\n\r\n`);
  assertEquals([raw.status, (raw.head + raw.body).includes("script")], [400, false]);
});

Deno.test("each decision is reported at once, and kept for the task's owner, equal ones once", async () => {
  await using bench = await Bench.start({ list: LIST });
  const task = bench.admit();
  for (let i = 0; i < 3; i++) await bench.connect("evil.com:443", task);
  await bench.connect("example.com:22", task);
  const summary = task.decisions().map(({ host, port, verdict, reason, detail }) => [
    `${host}:${port}`,
    verdict,
    reason,
    detail,
  ]);
  assertEquals(summary, [
    ["evil.com:443", "denied", "not_listed", undefined],
    ["example.com:22", "denied", "port_not_listed", "listed: 443"],
  ]);
  assertEquals(bench.decisions.map(({ task_id, reason }) => `${task_id} ${reason}`), [
    ...Array(3).fill("task1 not_listed"),
    "task1 port_not_listed",
  ]);
});
