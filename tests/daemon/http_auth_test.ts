import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { Place } from "./daemon_process.ts";
import { HttpDaemon, TOKEN } from "./_http.ts";

/** Every route that needs the token, one that does not exist among them. */
const ROUTES: [method: string, path: string][] = [
  ["GET", "/metrics"],
  ["GET", "/events"],
  ["POST", "/rpc"],
  ["GET", "/rpc"],
  ["GET", "/debug/pprof"],
  ["GET", "/debug/pprof/"],
  ["GET", "/debug/pprof/profile?seconds=1"],
  ["GET", "/debug/pprof/heap"],
  ["GET", "/debug/pprof/allocs"],
  ["GET", "/debug/pprof/cmdline"],
  ["GET", "/"],
  ["GET", "/nowhere"],
  ["HEAD", "/metrics"],
  ["DELETE", "/metrics"],
  ["OPTIONS", "/rpc"],
  ["GET", `/metrics?token=${TOKEN}`],
  ["GET", "//healthz"],
  ["GET", "/healthz/../metrics"],
  ["GET", "/HEALTHZ"],
];

/** What does not authenticate. */
const WRONG: (string | undefined)[] = [
  undefined,
  "",
  "Bearer",
  "Bearer ",
  TOKEN,
  `Basic ${btoa(`x:${TOKEN}`)}`,
  `Bearer ${TOKEN}x`,
  `Bearer x${TOKEN}`,
  `Bearer ${TOKEN.slice(0, -1)}`,
  `Bearer ${TOKEN.toUpperCase()}`,
  `Bearer ${TOKEN} ${TOKEN}`,
  `Bearer "${TOKEN}"`,
  `Bearer wrong, Bearer ${TOKEN}`,
];

// conformance: 5.1 7.unauthorized 4.http.metrics 4.http.events 4.http.rpc 4.http.pprof
Deno.test("every route but /healthz answers 401 without the token, whatever stands in its place", async () => {
  await using place = new Place();
  await using http = await HttpDaemon.start(place);
  for (const [method, path] of ROUTES) {
    for (const authorization of WRONG) {
      const headers: HeadersInit = authorization === undefined ? {} : { authorization };
      const response = await fetch(`${http.url}${path}`, { method, headers });
      const text = await response.text();
      assertEquals(response.status, 401, `${method} ${path} with ${authorization}`);
      assertEquals(response.headers.get("www-authenticate"), 'Bearer realm="taskd"');
      if (method !== "HEAD") {
        // What to send, for a client that left the scheme out.
        const error = "The token is missing or wrong: it is sent as Authorization: Bearer <token>";
        assertEquals(JSON.parse(text), { ok: false, code: "denied", error });
      }
    }
  }
  // Nothing of it was carried out.
  assertEquals(http.daemon.log.filter((line) => line.includes("defect")), []);
});

Deno.test("two Authorization headers are no token", async () => {
  await using place = new Place();
  await using http = await HttpDaemon.start(place);
  using raw = await http.connect();
  await raw.request("GET /metrics", ["Authorization: Bearer wrong"]);
  assertEquals((await raw.response())?.status, 401);
});

// conformance: 4.http.healthz 5.1
Deno.test("/healthz needs no token, and counts the sessions that are open", async () => {
  await using place = new Place();
  await using http = await HttpDaemon.start(place);
  const health = async () => {
    const response = await fetch(`${http.url}/healthz`);
    assertEquals([response.status, response.headers.get("content-type")], [200, "application/json"]);
    return await response.json();
  };
  assertEquals(await health(), { ok: true, sessions: 0 });
  await http.rpc({ op: "create", db: "app" });
  await http.rpc({ op: "open", db: "app" });
  assertEquals(await health(), { ok: true, sessions: 1 });
  assertEquals((await http.metrics()).value("sessions_open"), 1);
  await http.rpc({ op: "close", db: "app" });
  assertEquals(await health(), { ok: true, sessions: 0 });
});

// conformance: 5.7
Deno.test("the token is compared in constant time and kept only as a digest", async () => {
  const [check, source] = await Promise.all(
    ["lib/http/bearer.ts", "daemon/http/auth.ts"].map((path) =>
      Deno.readTextFile(new URL(`../../${path}`, import.meta.url))
    ),
  );
  assertStringIncludes(check!, "timingSafeEqual(sha256(presented");
  // The two modules that have it: no other compares, stores or prints it.
  assertEquals(/#token|this\.token|=== *token|token *===(?! undefined)/.test(`${check}${source}`), false);
});

// conformance: 5.2 5.8
Deno.test("the socket needs no token, is its owner's alone, and offers what a token's holder has", async () => {
  await using place = new Place();
  await using http = await HttpDaemon.start(place);
  const { mode } = await Deno.lstat(place.socket);
  assertEquals((mode ?? 0) & 0o777, 0o600);
  using client = await http.daemon.connect();
  await client.call("create", { db: "app" });
  for (
    const request of [
      { op: "open", db: "app" },
      { op: "flush", db: "app" },
      { op: "fork", db: "app", new_branch: "dev" },
      { op: "close", db: "app" },
      { op: "destroy", db: "app", branch: "dev" },
      { op: "shutdown" },
    ]
  ) {
    assertEquals((await http.rpc(request)).ok, true, request.op);
  }
  assertEquals(await http.daemon.ended(), 0);
});

Deno.test("a route answers one method, and 405 with its name to the others; an unknown one is 404", async () => {
  await using place = new Place();
  await using http = await HttpDaemon.start(place);
  const routes: [path: string, allow: string][] = [
    ["/healthz", "GET"],
    ["/metrics", "GET"],
    ["/events", "GET"],
    ["/rpc", "POST"],
    ["/debug/pprof/", "GET"],
    ["/debug/pprof/profile", "GET"],
  ];
  for (const [path, allow] of routes) {
    for (const method of ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]) {
      if (method === allow) continue;
      const response = await http.fetch(path, {
        method,
        ...(method === "POST" || method === "PUT" ? { body: "x" } : {}),
      });
      const text = await response.text();
      assertEquals([response.status, response.headers.get("allow")], [405, allow], `${method} ${path}`);
      if (method === "HEAD") assertEquals(text, "");
    }
  }
  for (const path of ["/", "/rpc/", "/metrics/", "/debug/pprof/goroutine", "/favicon.ico"]) {
    const response = await http.fetch(path);
    assertEquals([response.status, (await response.json()).code], [404, "not_found"], path);
  }
  assert((await http.fetch("/healthz")).ok);
});
