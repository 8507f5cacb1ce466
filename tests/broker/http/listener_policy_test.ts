import { assert, assertEquals, assertNotEquals, assertRejects } from "@std/assert";
import type { BrokerClient } from "../../../broker/client/client.ts";
import { checkAdmin } from "../../../broker/http/listener_policy.ts";
import { tcpHostRule } from "../../../lib/http/browser_guard.ts";
import { ROUTES } from "../../../broker/http/routes.ts";
import { RequestRefused } from "../../../lib/http/request_refused.ts";
import {
  FORWARDING_FIELDS,
  REMOTE_PEERS,
  strangeHosts,
  strangeOrigins,
  wrongBearers,
} from "../../attacks/inputs/control.ts";
import { TaskdError } from "../../../lib/errors.ts";
import { CODE_MS, SESSION_IDLE_MS } from "../../../broker/http/page_sessions.ts";
import { VirtualClock } from "../../support/clock.ts";
import { beginSession, codeOf } from "../../support/page_session.ts";
import { headerOf } from "../../support/raw_http.ts";
import { TestBroker, verdictOf, withBroker } from "./_broker.ts";

const ORDER = JSON.stringify({ repo: "https://example.com/o/r.git", instruction: "Fix the test" });
const BOTH = { addr: "127.0.0.1:0" };
const HTML = { "content-type": "text/html", "content-security-policy": "default-src 'self'" };

async function tokenOf(client: BrokerClient): Promise<string> {
  return await beginSession(await client.uiUrl());
}

Deno.test("attack: DNS rebinding: a foreign Host is 403 on every listener and route", () =>
  withBroker(async (broker) => {
    const token = await tokenOf(broker.client);
    for (const port of [broker.port, broker.ui_port]) {
      for (const host of strangeHosts(port)) {
        for (
          const line of ["GET /tasks", "GET /healthz", "GET /admin/pending", "GET /ui/", "GET /nowhere", "POST /tasks"]
        ) {
          const more = [`Host: ${host}`, `Authorization: Bearer ${token}`];
          const answer = await broker.ask(line, more, { port, ...(line.startsWith("POST") ? { body: ORDER } : {}) });
          assertEquals(answer.status, 403, `${line} for ${host}`);
        }
      }
    }
    assertEquals(broker.engine.tasks.size, 0);
  }, { ...BOTH, web: () => new Response("page", { headers: HTML }) }));

Deno.test("a listener's names are localhost, 127.0.0.1, [::1] and its own, with its port", () =>
  withBroker(async (broker) => {
    const { port } = broker;
    for (const host of ["localhost", "LOCALHOST", "127.0.0.1", "[::1]"]) {
      assertEquals((await broker.ask("GET /healthz", [`Host: ${host}:${port}`], { port })).status, 200, host);
    }
    assert(broker.http.addr === `localhost:${port}`);
  }, { addr: "localhost:0" }));

Deno.test("two Host headers, and none, are refused", () =>
  withBroker(async (broker) => {
    const { port } = broker;
    for (
      const text of [
        `GET /tasks HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nHost: evil.example\r\n\r\n`,
        "GET /tasks HTTP/1.1\r\nX: y\r\n\r\n",
        "GET /tasks HTTP/1.0\r\n\r\n",
      ]
    ) {
      using raw = await broker.connect(port);
      await raw.send(text);
      const answer = await raw.response();
      assert(answer === undefined || answer.status === 403 || answer.status === 400, `${text}: ${answer?.head}`);
    }
  }, BOTH));

Deno.test("an address in the request line is checked as a host, in any form", () =>
  withBroker(async (broker) => {
    for (const port of [undefined, broker.port]) {
      const host = port === undefined ? [] : [`Host: 127.0.0.1:${port}`];
      const cases: [line: string, status: number][] = [
        ["GET http://evil.example/tasks", 403],
        ["GET http://user@evil.example:80/tasks", 403],
        [`GET http://127.0.0.1${port === undefined ? "" : `:${port}`}/tasks`, 200],
        ["GET http://[::1/tasks", 400],
        ["OPTIONS *", 404],
        ["CONNECT evil.example:443", 405],
        ["TRACE /tasks", 405],
        ["GET //[", 404],
        ["GET /%zz", 404],
        ["GET /tasks/%00", 400],
        ["GET /tasks/%2e%2e/admin/x", 404],
        ["GET tasks", 400],
        [`GET /tasks/${"a".repeat(5_000)}`, 404],
        [`GET /tasks?${"a=1&".repeat(5_000)}`, 400],
      ];
      for (const [line, status] of cases) {
        assertEquals((await broker.ask(line, host, port === undefined ? {} : { port })).status, status, line);
      }
    }
    assertEquals(broker.log, []);
  }, BOTH));

Deno.test("HTTP/2 in the clear, which names its host elsewhere, is refused on every listener", () =>
  withBroker(async (broker) => {
    for (const port of [undefined, broker.port, broker.ui_port]) {
      using raw = await broker.connect(port);
      await raw.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0");
      assertEquals((await raw.response())?.status, 400);
    }
  }, BOTH));

Deno.test("a page of another origin cannot post, nor read, whatever it claims to be", () =>
  withBroker(async (broker) => {
    const token = await tokenOf(broker.client);
    for (const port of [broker.port, broker.ui_port]) {
      const host = `Host: 127.0.0.1:${port}`;
      const authorization = `Authorization: Bearer ${token}`;
      for (const origin of strangeOrigins(port)) {
        const more = [host, authorization, `Origin: ${origin}`];
        for (const type of ["application/json", "text/plain", "application/x-www-form-urlencoded"]) {
          const answer = await broker.ask("POST /tasks", [...more, `Content-Type: ${type}`], { port, body: ORDER });
          assertEquals(verdictOf(answer), [403, "denied"], `${origin} ${type}`);
        }
        assertEquals((await broker.ask("GET /tasks", more, { port })).status, 403, origin);
        assertEquals((await broker.ask("OPTIONS /tasks", more, { port })).status, 403, origin);
      }
      for (const site of ["cross-site", "same-site", "x"]) {
        const more = [host, authorization, `Sec-Fetch-Site: ${site}`];
        assertEquals((await broker.ask("GET /tasks", more, { port })).status, 403, site);
      }
      const own = [host, authorization, `Origin: http://127.0.0.1:${port}`, "Sec-Fetch-Site: same-origin"];
      assertEquals((await broker.ask("POST /tasks", own, { port, body: ORDER })).status, 202);
      assertEquals(
        (await broker.ask("GET /tasks", [host, authorization, "Sec-Fetch-Site: none"], { port })).status,
        200,
      );
    }
    assertEquals(broker.engine.tasks.size, 2);
  }, BOTH));

Deno.test("a browser that reaches the socket through a forwarded port is refused, a rebound name too", () =>
  withBroker(async (broker) => {
    for (
      const header of [
        "Origin: http://localhost",
        "Origin: null",
        "Sec-Fetch-Site: same-origin",
        "Sec-Fetch-Site: none",
        "Host: evil.example",
        "Host: evil.example:8080",
        "Host: com.",
      ]
    ) {
      assertEquals(verdictOf(await broker.ask("GET /admin/ui", [header])), [403, "denied"], header);
    }
    for (const host of ["localhost", "localhost:8080", "d", "taskd", "127.0.0.1", "[::1]:1", "taskd.invalid"]) {
      assertEquals((await broker.ask("GET /admin/ui", [`Host: ${host}`])).status, 200, host);
    }
  }));

Deno.test("every route of the pages' listener is 401 without a token, whatever stands in its place", () =>
  withBroker(async (broker) => {
    const { client, ui_port: port, engine } = broker;
    const { id } = await client.submit(JSON.parse(ORDER));
    engine.asked.length = 0;
    const token = await tokenOf(client);
    const host = `Host: 127.0.0.1:${port}`;
    const wrong = wrongBearers(token);
    const lines = [
      ...ROUTES.map(({ method, path }) => `${method} ${path.replace("<id>", id)}`),
      "GET /nowhere",
      "DELETE /tasks",
      `GET /tasks?token=${token}`,
      "GET //ui/",
      "GET /UI/",
      "GET /ui/../tasks",
      "GET /uix",
    ];
    for (const line of lines.filter((line) => line !== "POST /session")) {
      for (const authorization of line.startsWith("GET /tasks") ? wrong : wrong.slice(0, 1)) {
        const more = [host, ...(authorization === undefined ? [] : [`Authorization: ${authorization}`])];
        const answer = await broker.ask(line, more, { port });
        assertEquals(verdictOf(answer), [401, "denied"], `${line} with ${authorization}`);
        assertEquals(headerOf(answer, "www-authenticate"), 'Bearer realm="taskd"');
      }
    }
    assertEquals(engine.asked, []);
    assertEquals((await broker.ask("GET /tasks", [host, `Authorization: Bearer ${token}`], { port })).status, 200);
  }));

Deno.test("a code of the socket's begins one session; used, old and wrong ones are refused alike", () => {
  const clock = new VirtualClock();
  return withBroker(async (broker) => {
    const { client, ui_port: port, engine } = broker;
    const host = `Host: 127.0.0.1:${port}`;
    const begin = (authorization: string | undefined) =>
      broker.ask("POST /session", [host, ...(authorization === undefined ? [] : [`Authorization: ${authorization}`])], {
        port,
      });
    const [code, old] = [codeOf(await client.uiUrl()), codeOf(await client.uiUrl())];
    assertNotEquals(code, old);
    const wrong = await Promise.all(wrongBearers(code).map(begin));
    const begun = await begin(`Bearer ${code}`);
    assertEquals([begun.status, Object.keys(JSON.parse(begun.body))], [200, ["token"]]);
    const { token } = JSON.parse(begun.body);
    clock.advance(CODE_MS + 1);
    const refused = [...wrong, await begin(`Bearer ${code}`), await begin(`Bearer ${old}`)];
    assertEquals(verdictOf(refused[0]!), [401, "denied"]);
    for (const { status, body, head } of refused) {
      assertEquals([status, body], [401, refused[0]!.body]);
      assertEquals(head.replace(/^date: .*$/im, ""), refused[0]!.head.replace(/^date: .*$/im, ""));
    }
    const bearer = (secret: string) => [host, `Authorization: Bearer ${secret}`];
    for (const secret of [code, old]) {
      assertEquals((await broker.ask("GET /tasks", bearer(secret), { port })).status, 401);
    }
    assertEquals((await broker.ask("GET /tasks", bearer(token), { port })).status, 200);
    assertEquals((await broker.ask("GET /session", bearer(token), { port })).status, 405);
    assertEquals(engine.asked, []);
  }, { clock });
});

Deno.test("a session begins and ends on the pages' listener alone, for its own origin", () =>
  withBroker(async (broker) => {
    const { client, ui_port, port } = broker;
    const code = [`Authorization: Bearer ${codeOf(await client.uiUrl())}`];
    const token = [`Authorization: Bearer ${await tokenOf(client)}`];
    for (const path of ["/session", "/session/end"]) {
      for (const more of [code, token]) {
        assertEquals(verdictOf(await broker.ask(`POST ${path}`, more)), [403, "denied"]);
        const host = `Host: 127.0.0.1:${port}`;
        assertEquals(verdictOf(await broker.ask(`POST ${path}`, [host, ...more], { port })), [403, "denied"]);
      }
    }
    for (const host of strangeHosts(ui_port)) {
      assertEquals((await broker.ask("POST /session", [`Host: ${host}`, ...code], { port: ui_port })).status, 403);
    }
    const own = `Host: 127.0.0.1:${ui_port}`;
    for (const origin of strangeOrigins(ui_port)) {
      const more = [own, `Origin: ${origin}`, ...code];
      assertEquals((await broker.ask("POST /session", more, { port: ui_port })).status, 403, origin);
    }
    assertEquals((await broker.ask("POST /session", [own, ...code], { port: ui_port })).status, 200);
  }, BOTH));

Deno.test("a session that ends takes its streams with it; an open stream keeps one", () => {
  const clock = new VirtualClock();
  return withBroker(async (broker) => {
    const { client, ui_port: port } = broker;
    const { id } = await broker.runningTask();
    const bearer = [`Host: 127.0.0.1:${port}`, `Authorization: Bearer ${await tokenOf(client)}`];
    const other = [bearer[0]!, `Authorization: Bearer ${await tokenOf(client)}`];
    const url = `http://127.0.0.1:${port}/tasks/${id}/events`;
    const stream = await fetch(url, { headers: { authorization: bearer[1]!.slice("Authorization: ".length) } });
    const reader = stream.body!.getReader();
    await reader.read();
    clock.advance(SESSION_IDLE_MS + 1);
    assertEquals((await broker.ask("GET /tasks", other, { port })).status, 401);
    assertEquals((await broker.ask("GET /tasks", bearer, { port })).status, 200);
    assertEquals((await broker.ask("POST /session/end", bearer, { port })).status, 204);
    while (!(await reader.read()).done) { /* Its rows until then. */ }
    assertEquals((await broker.ask("GET /tasks", bearer, { port })).status, 401);
    assertEquals((await broker.ask("POST /session/end", bearer, { port })).status, 401);
  }, { clock });
});

Deno.test("the pages need no token and have a content policy of their own", () =>
  withBroker(async (broker) => {
    const { ui_port: port } = broker;
    const host = [`Host: 127.0.0.1:${port}`];
    const page = await broker.ask("GET /ui/", host, { port });
    assertEquals([page.status, page.body], [200, "/ui/"]);
    assertEquals(headerOf(page, "content-security-policy"), "default-src 'self'");
    assertEquals(headerOf(page, "x-content-type-options"), "nosniff");
    assertEquals(headerOf(await broker.ask("GET /", host, { port }), "location"), "/ui/");
    assertEquals((await broker.ask("GET /ui/none", host, { port })).status, 404);
    assertEquals((await broker.ask("POST /ui/", host, { port })).status, 405);
    for (const path of ["/ui/../../etc/passwd", "/ui/%2e%2e/tasks", "/ui/..%2ftasks"]) {
      assert((await broker.ask(`GET ${path}`, host, { port })).status >= 400, path);
    }
    // The pages are not on the other listeners.
    assertEquals((await broker.ask("GET /ui/", [`Host: 127.0.0.1:${broker.port}`], { port: broker.port })).status, 404);
  }, {
    ...BOTH,
    web: (path) => path === "/ui/" ? new Response(path, { headers: HTML }) : undefined,
  }));

Deno.test("a session's token is new, long, and in no log, file or answer but that to its code", async () => {
  const tokens: string[] = [];
  for (let boot = 0; boot < 2; boot++) {
    await withBroker(async (broker) => {
      const { client, http, log, ui_port, port, root } = broker;
      const token = await tokenOf(client);
      tokens.push(token);
      assertEquals(token.length, 64);
      assert(!http.ui_url.includes(token));
      const host = `Host: 127.0.0.1:${ui_port}`;
      for (const more of [[host], [host, `Authorization: Bearer ${token}`]]) {
        for (const path of ["/tasks", "/healthz", "/nowhere", "/admin/ui", `/tasks?token=${token}`]) {
          const { head, body } = await broker.ask(`GET ${path}`, more, { port: ui_port });
          if (!path.includes("token=")) assert(!`${head}${body}`.includes(token), path);
        }
      }
      const tcp = await broker.ask("GET /admin/ui", [`Host: 127.0.0.1:${port}`], { port });
      assertEquals(verdictOf(tcp), [403, "denied"]);
      assert(!log.join("\n").includes(token));
      for await (const { name, isFile } of Deno.readDir(`${root}/audit`)) {
        if (isFile) assert(!(await Deno.readTextFile(`${root}/audit/${name}`)).includes(token));
      }
    }, BOTH);
  }
  assertNotEquals(tokens[0], tokens[1]);
});

Deno.test("codes and tokens are looked up by their digest, and never compared as they are", async () => {
  for (const file of ["serve.ts", "listener_policy.ts", "page_sessions.ts", "session_routes.ts"]) {
    const text = await Deno.readTextFile(new URL(`../../../broker/http/${file}`, import.meta.url));
    assertEquals(/(?:token|code) *===(?! undefined)|=== *(?:token|code)\b/.test(text), false, file);
  }
});

// conformance: b5.admin b4.admin_unreachable
Deno.test("/admin/* refuses peers of other machines and requests through a proxy", () => {
  const request = (headers: HeadersInit = {}) => new Request("http://127.0.0.1:1/admin/pending", { headers });
  const listener = { kind: "addr", host: tcpHostRule({ hostname: "127.0.0.1", port: 1 }) } as const;
  const from = (hostname: string) => ({ transport: "tcp", hostname, port: 1 }) as const;
  for (const hostname of ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"]) {
    checkAdmin(request(), listener, from(hostname));
    for (const name of FORWARDING_FIELDS) {
      refused(() => checkAdmin(request({ [name]: "127.0.0.1" }), listener, from(hostname)));
    }
  }
  for (const hostname of REMOTE_PEERS) {
    refused(() => checkAdmin(request(), listener, from(hostname)));
  }
});

function refused(check: () => void): void {
  try {
    check();
  } catch (error) {
    assert(error instanceof RequestRefused);
    assertEquals(error.status, 403);
    return;
  }
  throw new Error("it was let in");
}

/** An address of this machine that is not loopback: what another machine's connection looks like from here. */
const outward = Deno.networkInterfaces().find(({ family, address }) =>
  family === "IPv4" && !address.startsWith("127.")
);

// conformance: b5.admin b4.admin_unreachable b2.effect.broker.addr b4.admin_listener b5.addr
Deno.test({
  name: "a peer that does not come over loopback submits, and ends and decides nothing" +
    (outward === undefined ? ": ignored, this machine has no other address" : ""),
  ignore: outward === undefined,
  fn: () =>
    withBroker(async (broker) => {
      const { port } = broker;
      const address = outward!.address;
      const ask = async (method: string, path: string, body?: string) => {
        const response = await fetch(`http://${address}:${port}${path}`, {
          method,
          ...(body === undefined ? {} : { body, headers: { "content-type": "application/json" } }),
        });
        return { status: response.status, code: (await response.json()).code };
      };
      assertEquals((await ask("POST", "/tasks", ORDER)).status, 202);
      const id = broker.engine.tasks.list()[0]!.id;
      const operators = ROUTES.filter(({ path }) => path.startsWith("/admin/") || /\/(cancel|kill)$/.test(path));
      assertEquals(operators.some(({ path }) => path === "/queue/<id>/cancel"), true);
      for (const { method, path } of operators) {
        const answer = await ask(method, path.replace("<id>", id), method === "POST" ? "{}" : undefined);
        assertEquals(answer, { status: 403, code: "denied" }, path);
      }
    }, { addr: `${outward?.address}:0` }),
});

Deno.test("an unavailable and an invalid address are errors, and no socket is left behind", async () => {
  const taken = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  for (const [addr, code] of [[`127.0.0.1:${taken.addr.port}`, "unavailable"], ["nonsense", "usage"]] as const) {
    const root = await Deno.makeTempDir();
    const error = await assertRejects(() => TestBroker.start(root, { addr }), TaskdError);
    assertEquals(error.code, code);
    await assertRejects(() => Deno.lstat(`${root}/run/taskd.sock`), Deno.errors.NotFound);
    await Deno.remove(root, { recursive: true });
  }
  taken.close();
});
