import { assertEquals, assertThrows } from "@std/assert";
import { checkRequest, type HostRule, hostsOf, requireJsonType, tcpHostRule } from "./browser_guard.ts";
import { RequestRefused } from "./request_refused.ts";

const LOOPBACK = tcpHostRule({ hostname: "127.0.0.1", port: 80 });

/** The status of a request's refusal; undefined when it passes. */
function verdict(headers: Record<string, string>, { rule = LOOPBACK, url = `http://${headers.host}/` }: {
  rule?: HostRule;
  url?: string;
} = {}): number | undefined {
  return refusal(() => checkRequest(new Request("http://localhost/", { headers }), URL.parse(url), rule));
}

function refusal(check: () => unknown): number | undefined {
  try {
    check();
  } catch (error) {
    if (error instanceof RequestRefused) return error.status;
    throw error;
  }
}

Deno.test("hostsOf() has each name as it is written and as browsers write it", () => {
  const own = (hostname: string, port: number) => [...hostsOf({ hostname, port })].slice(3);
  assertEquals([...hostsOf({ hostname: "Build.Local", port: 8080 })], [
    "localhost:8080",
    "127.0.0.1:8080",
    "[::1]:8080",
    "build.local:8080",
  ]);
  assertEquals(own("2001:DB8:0:0::1", 1), ["[2001:db8:0:0::1]:1", "[2001:db8::1]:1"]);
  assertEquals([...hostsOf({ hostname: "127.0.0.1", port: 80 })].slice(0, 2), ["localhost:80", "localhost"]);
});

Deno.test("a listener on every address takes any address as its Host, and no name", () => {
  for (const hostname of ["0.0.0.0", "::", "0:0:0:0:0:0:0:0", "::ffff:0.0.0.0"]) {
    const rule = tcpHostRule({ hostname, port: 80 });
    for (const host of ["10.1.2.3", "10.1.2.3:80", "[2001:db8::7]:80", "localhost:80"]) {
      assertEquals(verdict({ host }, { rule }), undefined, `${host} at ${hostname}`);
    }
    for (
      const host of [
        "",
        "build.local:80",
        "10.1.2.3:81",
        "10.1.2.3:080000",
        "10.1:80",
        "0x7f.0.0.1:80",
        "[fe80::1%1]:80",
      ]
    ) {
      assertEquals(verdict({ host }, { rule, url: "http://localhost/" }), 403, `${host} at ${hostname}`);
    }
  }
  assertEquals(verdict({ host: "10.1.2.3:80" }), 403);
});

Deno.test("the address in the request line is checked beside the Host", () => {
  assertEquals(verdict({ host: "localhost" }, { url: "http://evil.example/" }), 403);
  assertEquals(verdict({ host: "evil.example" }, { url: "http://localhost/" }), 403);
  assertEquals(verdict({ host: "localhost" }, { url: "none" }), 400);
  assertEquals(verdict({ host: "LOCALHOST" }), undefined);
});

Deno.test("pages of another origin are refused, and all of them where the listener has none", () => {
  const host = "localhost";
  const cases: [Record<string, string>, number | undefined][] = [
    [{ origin: "http://localhost" }, undefined],
    [{ origin: "https://localhost" }, 403],
    [{ origin: "http://localhost:81" }, 403],
    [{ origin: "http://127.0.0.1" }, 403],
    [{ origin: "null" }, 403],
    [{ "sec-fetch-site": "same-origin" }, undefined],
    [{ "sec-fetch-site": "none" }, undefined],
    [{ "sec-fetch-site": "same-site" }, 403],
    [{ "sec-fetch-site": "cross-site" }, 403],
  ];
  for (const [headers, expected] of cases) {
    assertEquals(verdict({ host, ...headers }), expected, JSON.stringify(headers));
    const rule = { ...LOOPBACK, pages: false };
    assertEquals(verdict({ host, ...headers }, { rule }), 403, JSON.stringify(headers));
  }
});

Deno.test("a refused Host is quoted harmlessly", () => {
  const request = new Request("http://localhost/", { headers: { host: "\x9b31m.example" } });
  const { message } = assertThrows(() => checkRequest(request, null, LOOPBACK), RequestRefused);
  assertEquals(/\p{Cc}/u.test(message), false);
});

Deno.test("a body is declared as plain JSON in UTF-8", () => {
  const of = (headers: Record<string, string>) => refusal(() => requireJsonType(new Request("http://x/", { headers })));
  for (const type of ["application/json", "Application/JSON; charset=utf-8", 'application/json;charset="UTF-8"']) {
    assertEquals(of({ "content-type": type }), undefined, type);
  }
  for (const type of ["text/plain", "application/x-www-form-urlencoded", "application/json; charset=utf-16", ""]) {
    assertEquals(of({ "content-type": type }), 415, type);
  }
  assertEquals(of({}), 415);
  assertEquals(of({ "content-type": "application/json", "content-encoding": "gzip" }), 415);
  assertEquals(of({ "content-type": "application/json", "content-encoding": "identity" }), undefined);
});
