import { assertEquals, assertThrows } from "@std/assert";
import fc from "../../tests/packages/fast_check.ts";
import {
  encodeHead,
  endToEnd,
  MAX_FIELDS,
  parseRequestHead,
  parseResponseHead,
  requestFraming,
  responseFraming,
  wantsClose,
} from "./http_head.ts";
import { Refused } from "./reasons.ts";

const latin1 = (text: string) => Uint8Array.from(text, (char) => char.charCodeAt(0));
const request = (...lines: string[]) => parseRequestHead(latin1(lines.join("\r\n")));
const response = (...lines: string[]) => parseResponseHead(latin1(lines.join("\r\n")));

function reasonOf(act: () => unknown): string {
  return assertThrows(act, Refused).reason;
}

Deno.test("a request's head is read into method, target, version and fields", () => {
  assertEquals(request("GET http://a.example/?q HTTP/1.1", "Host: a.example", "X-Empty:", "Accept:\t*/* "), {
    method: "GET",
    target: "http://a.example/?q",
    minor: 1,
    fields: [
      { name: "Host", key: "host", value: "a.example" },
      { name: "X-Empty", key: "x-empty", value: "" },
      { name: "Accept", key: "accept", value: "*/*" },
    ],
  });
});

Deno.test("a request line is three parts with one space each, and HTTP/1", () => {
  for (
    const line of [
      "",
      "GET",
      "GET /",
      "GET  / HTTP/1.1",
      "GET / HTTP/1.1 ",
      " GET / HTTP/1.1",
      "GET\t/ HTTP/1.1",
      "GET / a HTTP/1.1",
      "GET / HTTP/1.2",
      "GET / HTTP/2.0",
      "PRI * HTTP/2.0",
      "GET / http/1.1",
      "GET /\x00 HTTP/1.1",
      "GET /\x7f HTTP/1.1",
      "GET /\xe9 HTTP/1.1",
      "G(T / HTTP/1.1",
      "GET / HTTP/1.1\nHost: b",
      "GET / HTTP/1.1\rHost: b",
    ]
  ) assertEquals([line, reasonOf(() => request(line))], [line, "malformed"]);
});

Deno.test("fields that parsers read differently are refused", () => {
  for (
    const line of [
      "Host : a",
      " Host: a",
      "\tfolded",
      "Host",
      ": a",
      "",
      "Ho st: a",
      "Host: a\nX: b",
      "Host: a\rX: b",
      "Host: a\0",
      "Host: a\x7f",
      "H\xf6st: a",
    ]
  ) assertEquals([line, reasonOf(() => request("GET / HTTP/1.1", "A: b", line))], [line, "malformed"]);
});

Deno.test("a head has at most 128 fields", () => {
  const fields = Array(MAX_FIELDS).fill("A: b");
  assertEquals(request("GET / HTTP/1.1", ...fields).fields.length, MAX_FIELDS);
  assertEquals(reasonOf(() => request("GET / HTTP/1.1", ...fields, "A: b")), "head_too_large");
});

const framing = (...fields: string[]) => requestFraming(request("POST / HTTP/1.1", ...fields));

Deno.test("a request's body is framed by one length, by chunks, or not at all", () => {
  assertEquals(framing(), { by: "none" });
  assertEquals(framing("Content-Length: 12"), { by: "length", bytes: 12 });
  assertEquals(framing("Transfer-Encoding: Chunked"), { by: "chunks" });
});

Deno.test("every known shape of request smuggling is refused", () => {
  for (
    const fields of [
      ["Content-Length: 1", "Transfer-Encoding: chunked"],
      ["Transfer-Encoding: chunked", "Content-Length: 0"],
      ["Content-Length: 1", "Content-Length: 2"],
      ["Content-Length: 1", "content-length: 1"],
      ["Content-Length: 1, 1"],
      ["Content-Length: +1"],
      ["Content-Length: -1"],
      ["Content-Length: 0x1"],
      ["Content-Length: 1 0"],
      ["Content-Length:"],
      ["Content-Length: 1e3"],
      ["Content-Length: 9999999999999999999999"],
      ["Transfer-Encoding: chunked", "Transfer-Encoding: chunked"],
      ["Transfer-Encoding: chunked, identity"],
      ["Transfer-Encoding: identity, chunked"],
      ["Transfer-Encoding: gzip, chunked"],
      ["Transfer-Encoding: xchunked"],
      ["Transfer-Encoding: \x0bchunked".replace("\x0b", "\xa0")],
      ['Transfer-Encoding: "chunked"'],
      ["Transfer-Encoding:"],
      ["Connection: close, Content-Length", "Content-Length: 1"],
      ["Connection: transfer-encoding", "Transfer-Encoding: chunked"],
      ["Connection: Host"],
    ]
  ) assertEquals([fields, reasonOf(() => framing(...fields))], [fields, "smuggling"]);
  assertEquals(reasonOf(() => requestFraming(request("POST / HTTP/1.0", "Transfer-Encoding: chunked"))), "smuggling");
});

Deno.test("fields of one connection do not go on, nor those that Connection names", () => {
  const { fields } = request(
    "GET / HTTP/1.1",
    "Host: a",
    "Connection: keep-alive, X-Private",
    "Proxy-Connection: keep-alive",
    "Proxy-Authorization: Basic c2VjcmV0",
    "Keep-Alive: 5",
    "X-Private: 1",
    "TE: trailers",
    "Trailer: X",
    "Upgrade: websocket",
    "HTTP2-Settings: AAMAAABk",
    "Authorization: Bearer x",
  );
  assertEquals(endToEnd(fields).map(({ name }) => name), ["Host", "Authorization"]);
});

Deno.test("a connection ends after HTTP/1.0 and after close", () => {
  assertEquals(wantsClose(request("GET / HTTP/1.1")), false);
  assertEquals(wantsClose(request("GET / HTTP/1.0")), true);
  assertEquals(wantsClose(request("GET / HTTP/1.1", "Connection: x, Close")), true);
  assertEquals(wantsClose(request("GET / HTTP/1.1", "Proxy-Connection: close")), true);
});

Deno.test("a response is framed by its status, its method, a length, chunks or its end", () => {
  const of = (method: string, ...lines: string[]) => responseFraming(response(...lines), method);
  assertEquals(of("GET", "HTTP/1.1 200 OK", "Content-Length: 3"), { by: "length", bytes: 3 });
  assertEquals(of("GET", "HTTP/1.1 200", "Transfer-Encoding: chunked"), { by: "chunks" });
  assertEquals(of("GET", "HTTP/1.0 200 OK"), { by: "close" });
  assertEquals(of("HEAD", "HTTP/1.1 200 OK", "Content-Length: 3"), { by: "none" });
  assertEquals(of("GET", "HTTP/1.1 304 Not Modified", "Content-Length: 3"), { by: "none" });
  const ambiguous = ["HTTP/1.1 200 OK", "Content-Length: 3", "Transfer-Encoding: chunked"];
  assertEquals(reasonOf(() => of("GET", ...ambiguous)), "upstream_malformed");
  for (const line of ["HTTP/2 200", "ICY 200 OK", "HTTP/1.1 20 OK", "HTTP/1.1 2000 OK", "HTTP/1.1 200 \x01"]) {
    assertEquals([line, reasonOf(() => response(line))], [line, "upstream_malformed"]);
  }
});

Deno.test("a head that was written is read back the same, byte for byte", () => {
  const head = {
    method: "GET",
    target: "/\x7e",
    minor: 1 as const,
    fields: [{ name: "A", key: "a", value: "\xe9\x82 b" }],
  };
  assertEquals(parseRequestHead(encodeHead("GET /~ HTTP/1.1", head.fields).slice(0, -4)), head);
});

Deno.test("any bytes are a request or refused", () => {
  fc.assert(fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
    try {
      requestFraming(parseRequestHead(bytes));
    } catch (error) {
      assertEquals(error instanceof Refused, true);
    }
  }));
});
