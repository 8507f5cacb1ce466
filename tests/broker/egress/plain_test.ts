import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import type { TaskEgress } from "../../../broker/egress/proxy.ts";
import { SMUGGLING_FIELDS } from "../../attacks/inputs/egress.ts";
import { Bench, connectHead, credentials, latin1, Server, text } from "./_harness.ts";

const LIST = { "allowed.example": [80, 8080, 443], "other.example": [80] };

/** A request in absolute form; more fields may follow. */
function get(url: string, host: string, task: TaskEgress, ...fields: string[]): string {
  return [`GET ${url} HTTP/1.1`, `Host: ${host}`, credentials(task), ...fields, "", ""].join("\r\n");
}

/** A server that keeps each request's bytes and answers it; the request ends with its head, or with `\r\n\r\n` after it. */
function httpServer(answer: (request: string) => string): Server & { got: string[] } {
  const got: string[] = [];
  const server = Server.start(async (conn) => {
    const buffer = new Uint8Array(64 << 10);
    let request = "";
    const whole = () => {
      const head = request.indexOf("\r\n\r\n");
      const length = Number(/^content-length: (\d+)\r$/im.exec(request)?.[1] ?? 0);
      const chunked = /^transfer-encoding: chunked\r$/im.test(request);
      return head >= 0 && (chunked ? request.endsWith("0\r\n\r\n") : request.length >= head + 4 + length);
    };
    while (!whole()) {
      const count = await conn.read(buffer);
      if (count === null) break;
      request += text(buffer.subarray(0, count));
    }
    got.push(request);
    await conn.write(latin1(answer(request)));
  });
  return Object.assign(server, { got });
}

const ok = (body = "fine") =>
  `HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\nConnection: keep-alive\r\n\r\n${body}`;

Deno.test("a plain request is rewritten: origin form, Host first, no connection fields or credentials", async () => {
  await using server = httpServer(() => ok());
  await using bench = await Bench.start({ list: LIST, ports: { 80: server.port } });
  const task = bench.admit();
  const { status, head, body } = await bench.ask(
    get(
      "http://Allowed.example/a%20b?q=1",
      "allowed.example:80",
      task,
      "Proxy-Connection: keep-alive",
      "Connection: X-Hop",
      "X-Hop: 1",
      "Upgrade: websocket",
      "TE: trailers",
      "Accept: */*",
    ),
  );
  assertEquals([status, body], [200, "fine"]);
  assertStringIncludes(head, "Connection: keep-alive");
  const sent = "GET /a%20b?q=1 HTTP/1.1\r\nHost: allowed.example\r\nAccept: */*\r\nConnection: close\r\n\r\n";
  assertEquals(server.got, [sent]);
});

Deno.test("a Host that differs from the target is refused, and a missing or second one too", async () => {
  await using server = httpServer(() => ok());
  await using bench = await Bench.start({ list: LIST, ports: { 80: server.port, 8080: server.port } });
  const task = bench.admit();
  const url = "http://allowed.example/";
  const refused = [
    get(url, "other.example", task),
    get(url, "evil.com", task),
    get(url, "allowed.example:8080", task),
    get("http://allowed.example:8080/", "allowed.example", task),
    get(url, "", task),
    get(url, "allowed.example@evil.com", task),
    get(url, "allowed.example, evil.com", task),
    get(url, "allowed.example", task, "Host: evil.com"),
    get(url, "allowed.example", task, "Host: allowed.example"),
    `GET ${url} HTTP/1.1\r\n${credentials(task)}\r\n\r\n`,
  ];
  for (const request of refused) {
    const { status, body } = await bench.ask(request);
    assertMatch(`${status} ${JSON.parse(body).code}`, /^403 host_mismatch|400 malformed$/, request);
  }
  assertEquals([server.accepted, bench.lookups], [0, []]);
});

Deno.test("CONNECT's Host must be the target, with or without its port", async () => {
  await using server = Server.echo();
  await using bench = await Bench.start({ list: LIST, ports: { 443: server.port } });
  const task = bench.admit();
  const verdict = async (host: string) =>
    (await bench.ask(`CONNECT allowed.example:443 HTTP/1.1\r\nHost: ${host}\r\n${credentials(task)}\r\n\r\n`)).status;
  assertEquals(await verdict("allowed.example"), 200);
  assertEquals(await verdict("Allowed.example:443"), 200);
  for (const host of ["other.example", "allowed.example:80", "evil.com:443"]) {
    assertEquals([host, await verdict(host)], [host, 403]);
  }
});

Deno.test("every request of a connection is checked: a pipelined one to another host is refused", async () => {
  await using server = httpServer((request) => ok(request.split(" ")[1]));
  await using bench = await Bench.start({ list: LIST, ports: { 80: server.port } });
  const task = bench.admit();
  const client = await bench.client();
  await client.send([
    get("http://allowed.example/first", "allowed.example", task),
    get("http://evil.com/second", "evil.com", task),
    get("http://allowed.example/third", "evil.com", task),
    get("http://allowed.example/fourth", "allowed.example", task),
    "GET http://allowed.example/fifth HTTP/1.1\r\nHost: allowed.example\r\n\r\n",
    get("http://other.example/sixth", "other.example", task),
  ].join(""));
  const statuses = [];
  for (let i = 0; i < 6; i++) statuses.push((await client.response()).status);
  assertEquals(statuses, [200, 403, 403, 200, 407, 200]);
  assertEquals(server.got.map((request) => request.split(" ")[1]), ["/first", "/fourth", "/sixth"]);
  assertEquals(bench.lookups, ["allowed.example", "allowed.example", "other.example"]);
});

Deno.test("a redirect from an allowed host to a denied one is a response, and following it is refused", async () => {
  const redirect = "HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/latest/\r\nContent-Length: 0\r\n\r\n";
  await using server = httpServer(() => redirect);
  await using bench = await Bench.start({ list: LIST, ports: { 80: server.port } });
  const task = bench.admit();
  const client = await bench.client();
  await client.send(get("http://allowed.example/", "allowed.example", task));
  const { status, head } = await client.response();
  assertEquals(status, 302);
  const location = /^Location: (.*)\r$/m.exec(head)![1]!;
  await client.send(get(location, new URL(location).host, task));
  assertEquals(JSON.parse((await client.response()).body).code, "address_literal");
});

Deno.test("Content-Length with Transfer-Encoding, and other shapes of smuggling, end the connection", async () => {
  await using server = httpServer(() => ok());
  await using bench = await Bench.start({ list: LIST, ports: { 80: server.port } });
  const task = bench.admit();
  const smuggled = "0\r\n\r\nGET http://evil.com/ HTTP/1.1\r\n\r\n";
  for (const fields of SMUGGLING_FIELDS) {
    const client = await bench.client();
    const head = get("http://allowed.example/", "allowed.example", task, ...fields).replace("GET", "POST");
    await client.send(head + smuggled);
    const answer = await client.rest();
    assertMatch(answer, /^HTTP\/1\.1 400 /, fields.join());
    assertEquals([fields, answer.split("Proxy-Status").length], [fields, 2]);
  }
  assertEquals([server.accepted, bench.lookups], [0, []]);
});

Deno.test("a chunked body goes on as the same content in new chunks, without extensions and trailers", async () => {
  await using server = httpServer(() => ok());
  await using bench = await Bench.start({ list: LIST, ports: { 80: server.port } });
  const task = bench.admit();
  const client = await bench.client();
  const head = get("http://allowed.example/", "allowed.example", task, "Transfer-Encoding: chunked").replace(
    "GET",
    "PUT",
  );
  await client.send(`${head}5;ext=1\r\nhello\r\n00a \r\n0123456789\r\n0\r\nX-Trailer: 1\r\n\r\n`);
  assertEquals((await client.response()).status, 200);
  assertEquals(
    server.got[0]!.split("\r\n\r\n").slice(1).join("\r\n\r\n"),
    "5\r\nhello\r\na\r\n0123456789\r\n0\r\n\r\n",
  );
  // The next request begins where the trailers ended.
  await client.send(get("http://allowed.example/next", "allowed.example", task));
  assertEquals((await client.response()).status, 200);
});

Deno.test("a broken chunk is refused, and what follows it is not taken for a request", async () => {
  await using server = httpServer(() => ok());
  await using bench = await Bench.start({ list: LIST, ports: { 80: server.port } });
  const task = bench.admit();
  const next = get("http://allowed.example/smuggled", "allowed.example", task);
  for (
    const body of ["x\r\n", "5\nhello\r\n", "-1\r\n", "5\r\nhelloX\r\n", "fffffffffffffffff\r\n", "0x5\r\nhello\r\n"]
  ) {
    const client = await bench.client();
    const head = get("http://allowed.example/", "allowed.example", task, "Transfer-Encoding: chunked");
    await client.send(head.replace("GET", "POST") + body + next);
    assertMatch(await client.rest(), /^HTTP\/1\.1 400 Malformed request/, body);
  }
  assertEquals(server.got.some((request) => request.includes("smuggled HTTP")), false);
});

Deno.test("bytes after a body with a length are the next request, and checked as one", async () => {
  await using server = httpServer((request) => ok(request.slice(-5)));
  await using bench = await Bench.start({ list: LIST, ports: { 80: server.port } });
  const task = bench.admit();
  const client = await bench.client();
  const post = get("http://allowed.example/", "allowed.example", task, "Content-Length: 5").replace("GET", "POST");
  await client.send(`${post}hello${get("http://evil.com/", "evil.com", task)}`);
  assertEquals((await client.response()).body, "hello");
  assertEquals((await client.response()).status, 403);
});

Deno.test("Expect: 100-continue is answered, and the body then taken", async () => {
  await using server = httpServer((request) => ok(request.slice(-5)));
  await using bench = await Bench.start({ list: LIST, ports: { 80: server.port } });
  const client = await bench.client();
  const fields = ["Content-Length: 5", "Expect: 100-continue"];
  await client.send(get("http://allowed.example/", "allowed.example", bench.admit(), ...fields).replace("GET", "POST"));
  assertEquals(await client.until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  await client.send("hello");
  assertEquals((await client.response()).body, "hello");
});

Deno.test("an answer before the end of the body reaches the client, and ends the connection", async () => {
  await using server = Server.start(async (conn) => {
    await conn.read(new Uint8Array(1_000));
    await conn.write(latin1("HTTP/1.1 413 Content Too Large\r\nContent-Length: 4\r\n\r\nstop"));
    await conn.closeWrite();
    while (await conn.read(new Uint8Array(64 << 10)) !== null);
  });
  await using bench = await Bench.start({ list: LIST, ports: { 80: server.port } });
  const client = await bench.client();
  const head = get("http://allowed.example/", "allowed.example", bench.admit(), "Content-Length: 1000000");
  await client.send(head.replace("GET", "POST") + "x".repeat(1_000));
  const { status, head: answer, body } = await client.response();
  assertEquals([status, body, answer.includes("Connection: close")], [413, "stop", true]);
  await client.send("x".repeat(1_000)).catch(() => {});
  assertEquals(await client.rest(), "");
});

Deno.test("responses keep their content however they are framed", async () => {
  const long = "x".repeat(300_000);
  const answers: Record<string, string> = {
    "/length": ok(long),
    "/chunks": `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4;a=b\r\nfine\r\n3\r\nend\r\n0\r\nX: y\r\n\r\n`,
    "/close": `HTTP/1.0 200 OK\r\n\r\n${long}`,
    "/interim": `HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n${ok("late")}`,
    "/empty": "HTTP/1.1 204 No Content\r\n\r\n",
    "/cached": "HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\n\r\n",
    "/utf8": "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX-Name: \xe2\x82\xac\r\n\r\n",
  };
  await using server = httpServer((request) => answers[request.split(" ")[1]!]!);
  await using bench = await Bench.start({ list: LIST, ports: { 80: server.port } });
  const task = bench.admit();
  const client = await bench.client();
  const ask = async (path: string) => {
    await client.send(get(`http://allowed.example${path}`, "allowed.example", task));
    return await client.until("\r\n\r\n");
  };
  await client.send(get("http://allowed.example/length", "allowed.example", task));
  assertEquals((await client.response()).body, long);
  assertStringIncludes(await ask("/chunks"), "Transfer-Encoding: chunked");
  assertEquals(await client.until("0\r\n\r\n"), "4\r\nfine\r\n3\r\nend\r\n0\r\n\r\n");
  assertMatch(await ask("/interim"), /^HTTP\/1\.1 200 OK/);
  assertEquals(await client.until("late"), "late");
  assertMatch(await ask("/empty"), /^HTTP\/1\.1 204 No Content/);
  assertMatch(await ask("/cached"), /^HTTP\/1\.1 304 Not Modified/);
  assertStringIncludes(await ask("/utf8"), "X-Name: \xe2\x82\xac");
  await client.send(get("http://allowed.example/length", "allowed.example", task).replace("GET", "HEAD"));
  assertStringIncludes(await client.until("\r\n\r\n"), "Content-Length: 300000");
  await client.send(get("http://allowed.example/chunks", "allowed.example", task));
  assertMatch(await client.until("0\r\n\r\n"), /^HTTP\/1\.1 200 OK/);
  await client.send(get("http://allowed.example/close", "allowed.example", task));
  const rest = await client.rest();
  assertStringIncludes(rest, "Connection: close");
  assertEquals(rest.endsWith("\r\n\r\n" + long), true);
});

Deno.test("a client of HTTP/1.0 gets the bare content and the end", async () => {
  await using server = httpServer(() => "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nfine\r\n0\r\n\r\n");
  await using bench = await Bench.start({ list: LIST, ports: { 80: server.port } });
  const client = await bench.client();
  await client.send(`GET http://allowed.example HTTP/1.0\r\n${credentials(bench.admit())}\r\n\r\n`);
  const answer = await client.rest();
  assertEquals([answer.includes("chunked"), answer.endsWith("\r\n\r\nfine")], [false, true]);
  assertMatch(server.got[0]!, /^GET \/ HTTP\/1\.1\r\nHost: allowed\.example\r\n/);
});

Deno.test("an upgrade is not asked for, and a host that does it anyway is refused", async () => {
  await using server = httpServer(() => "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\nraw bytes");
  await using bench = await Bench.start({ list: LIST, ports: { 80: server.port } });
  const fields = ["Connection: Upgrade", "Upgrade: websocket"];
  const { status, body } = await bench.ask(get("http://allowed.example/", "allowed.example", bench.admit(), ...fields));
  assertEquals([status, JSON.parse(body).code], [502, "upstream_malformed"]);
  assertEquals(/upgrade/i.test(server.got[0]!), false);
});

Deno.test("a response that is no HTTP, or ends early, is a 502; a cut body is a cut connection", async () => {
  const answers: Record<string, string> = {
    "/garbage": "SSH-2.0-OpenSSH\r\n\r\n",
    "/nothing": "",
    "/half": "HTTP/1.1 200 OK\r\nContent-",
    "/both": "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "/huge": `HTTP/1.1 200 OK\r\nX: ${"y".repeat(70_000)}\r\n\r\n`,
    "/cut": "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nonly this",
  };
  await using server = httpServer((request) => answers[request.split(" ")[1]!]!);
  await using bench = await Bench.start({ list: LIST, ports: { 80: server.port } });
  const task = bench.admit();
  for (const path of ["/garbage", "/nothing", "/half", "/both", "/huge"]) {
    const { status } = await bench.ask(get(`http://allowed.example${path}`, "allowed.example", task));
    assertEquals([path, status], [path, 502]);
  }
  const client = await bench.client();
  await client.send(get("http://allowed.example/cut", "allowed.example", task));
  assertEquals((await client.rest()).endsWith("only this"), true);
});

Deno.test("what is no proxy request is refused without a DNS query", async () => {
  await using bench = await Bench.start({ list: LIST });
  const task = bench.admit();
  for (
    const target of [
      "/",
      "*",
      "https://allowed.example/",
      "ftp://allowed.example/",
      "HTTP:/allowed.example/",
      "http:///",
      "http://allowed.example#evil.com/",
      "http://allowed.example/#x",
      "http://allowed.example\\@evil.com/",
      "http://user:pass@allowed.example/",
      "http://allowed.example%2f@evil.com/",
      "allowed.example:80",
    ]
  ) {
    const { status } = await bench.ask(get(target, "allowed.example", task));
    assertEquals([target, status], [target, 400]);
  }
  // What would be a TLS port's plain text.
  const { status } = await bench.ask(get("http://allowed.example:443/", "allowed.example:443", task));
  assertEquals([status, bench.lookups], [403, []]);
});

Deno.test("a tunnel to port 80 is for HTTP, and every request in it is for the tunnel's host", async () => {
  await using server = httpServer((request) => ok(request.split(" ")[1]));
  await using bench = await Bench.start({ list: LIST, ports: { 80: server.port } });
  const task = bench.admit();
  const client = await bench.client();
  assertEquals(await client.tunnel("allowed.example:80", task), 200);
  const inner = (path: string, host: string) => `GET ${path} HTTP/1.1\r\nHost: ${host}\r\n\r\n`;
  await client.send(
    inner("/one", "allowed.example") + inner("/two", "other.example") + inner("/three", "allowed.example"),
  );
  assertEquals((await client.response()).body, "/one");
  assertEquals(JSON.parse((await client.response()).body).code, "host_mismatch");
  assertEquals((await client.response()).body, "/three");
  await client.send(inner("http://other.example/", "other.example"));
  assertEquals(JSON.parse((await client.response()).body).code, "not_proxy_form");
  await client.send(connectHead("other.example:80", task));
  assertEquals((await client.response()).status, 400);
  assertEquals(bench.lookups, ["allowed.example"]);

  const tls = await bench.client();
  assertEquals(await tls.tunnel("allowed.example:80", task), 200);
  await tls.send("\x16\x03\x01\x00\x05hello\r\n\r\n");
  assertMatch(await tls.rest(), /^HTTP\/1\.1 400 Malformed request/);
});

Deno.test("a request's head is at most 64 KiB and 128 fields", async () => {
  await using bench = await Bench.start({ list: LIST });
  const task = bench.admit();
  const large = await bench.client();
  await large.send(get(`http://allowed.example/`, "allowed.example", task, `X: ${"y".repeat(66_000)}`));
  assertMatch(await large.rest(), /^HTTP\/1\.1 431 /);
  const many = await bench.client();
  await many.send(get("http://allowed.example/", "allowed.example", task, ...Array(130).fill("A: b")));
  assertMatch(await many.rest(), /^HTTP\/1\.1 431 /);
});
