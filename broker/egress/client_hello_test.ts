import { assertEquals } from "@std/assert";
import fc from "../../tests/packages/fast_check.ts";
import { MAX_HELLO_BYTES, readClientHello } from "./client_hello.ts";

const u8 = (value: number) => [value & 0xff];
const u16 = (value: number) => [value >> 8, value & 0xff];
const ascii = (text: string) => [...text].map((char) => char.charCodeAt(0));
const vector = (size: typeof u8, bytes: number[]) => [...size(bytes.length), ...bytes];
const extension = (type: number, bytes: number[]) => [...u16(type), ...vector(u16, bytes)];
const hostName = (name: string) => [0, ...vector(u16, ascii(name))];
const sni = (...names: number[][]) => extension(0, vector(u16, names.flat()));

/** A handshake message with these extensions; undefined for none at all. */
function hello(extensions?: number[]): number[] {
  const body = [3, 3, ...Array(32).fill(7), ...vector(u8, [1, 2]), ...vector(u16, [0x13, 1]), ...vector(u8, [0])];
  if (extensions) body.push(...vector(u16, extensions));
  return [1, 0, ...u16(body.length), ...body];
}

const record = (payload: number[], type = 22) => [type, 3, 1, ...vector(u16, payload)];
const read = (...records: number[][]) => readClientHello(Uint8Array.from(records.flat()));
const NAMED = hello([...extension(10, [0, 2, 0, 29]), ...sni(hostName("example.com")), ...extension(43, [2, 3, 4])]);
const FOUND = { is: "hello", server_name: "example.com" } as const;

Deno.test("the server name is read, wherever among the extensions it stands", () => {
  assertEquals(read(record(NAMED)), FOUND);
  assertEquals(read(record(hello(sni(hostName("example.com"))))), FOUND);
});

Deno.test("a hello in pieces is incomplete until its last byte, and then the same", () => {
  const bytes = Uint8Array.from(record(NAMED));
  for (let end = 0; end < bytes.length; end++) {
    const verdict = readClientHello(bytes.subarray(0, end));
    assertEquals(verdict, { is: "incomplete", needs: end < 5 ? end + 1 : bytes.length });
  }
  assertEquals(readClientHello(bytes), FOUND);
});

Deno.test("a hello spread over records is read, down to one byte in each", () => {
  for (const size of [1, 3, 50, NAMED.length]) {
    const records = [];
    for (let at = 0; at < NAMED.length; at += size) records.push(record(NAMED.slice(at, at + size)));
    assertEquals(read(...records), FOUND);
    assertEquals(read(...records, [23, 3, 3, 0, 9]), FOUND);
  }
});

Deno.test("a hello without a name is reported as such", () => {
  assertEquals(read(record(hello())), { is: "hello", server_name: undefined });
  assertEquals(read(record(hello(extension(43, [2, 3, 4])))), { is: "hello", server_name: undefined });
});

Deno.test("what is not TLS is known from its first bytes", () => {
  for (
    const text of ["GET / HTTP/1.1\r\n", "SSH-2.0-OpenSSH", "\x80\x2e\x01", "\x16\x02", "\0", "\x15\x03\x01\0\x02"]
  ) {
    assertEquals([text, read(ascii(text)).is], [text, "not_tls"]);
  }
});

Deno.test("what two servers could read in two ways is malformed", () => {
  const cases: Record<string, number[]> = {
    "two names": record(hello(sni(hostName("example.com"), hostName("evil.com")))),
    "two extensions": record(hello([...sni(hostName("example.com")), ...sni(hostName("evil.com"))])),
    "a name of another type": record(hello(sni([1, ...vector(u16, ascii("example.com"))]))),
    "an empty name": record(hello(sni(hostName("")))),
    "a NUL in the name": record(hello(sni(hostName("example.com\0.evil.com")))),
    "a name that is not ASCII": record(hello(sni(hostName("ex\u00e4mple.com")))),
    "an empty list": record(hello(sni())),
    "bytes after the list": record(hello(extension(0, [...vector(u16, hostName("example.com")), 0]))),
    "an extension past the end": record(hello([0, 0, 0, 99, 1])),
    "bytes after the extensions": record([1, 0, 0, 47, ...hello([]).slice(4), 0, 0]),
    "an empty record": [...record(NAMED.slice(0, 9)), ...record([])],
    "a record too large": [22, 3, 1, 0x40, 1],
    "another record in between": [...record(NAMED.slice(0, 2)), ...record([1], 20)],
    "another handshake message": record([2, 0, 0, 0]),
    "a message too large": record([1, 1, 0, 0]),
  };
  for (const [name, bytes] of Object.entries(cases)) assertEquals([name, read(bytes).is], [name, "malformed"]);
});

Deno.test("a hello that never ends is refused at the limit", () => {
  const body = hello(extension(21, Array(16_000).fill(0)));
  const bytes = new Uint8Array(MAX_HELLO_BYTES + 5 * MAX_HELLO_BYTES);
  for (let i = 0; i < MAX_HELLO_BYTES; i++) bytes.set(record([body[i] ?? 0]), i * 6);
  assertEquals(readClientHello(bytes.subarray(0, MAX_HELLO_BYTES - 1)).is, "incomplete");
  assertEquals(readClientHello(bytes.subarray(0, MAX_HELLO_BYTES)).is, "malformed");
});

Deno.test("any bytes get a verdict", () => {
  fc.assert(fc.property(fc.uint8Array({ maxLength: 300 }), (noise) => {
    readClientHello(noise);
    readClientHello(Uint8Array.from(record([1, 0, ...u16(noise.length), ...noise])));
    readClientHello(Uint8Array.from(record(hello([...noise]))));
  }));
});
