import { assert, assertEquals } from "@std/assert";
import fc from "../../tests/packages/fast_check.ts";
import { hideSecrets } from "../../lib/text/secrets.ts";
import { Redactor, SecretForms } from "./redact.ts";

const SECRET = "sk-aab-aab";

function pass(text: string, cuts: readonly number[], secrets: readonly string[] = [SECRET]): string {
  const bytes = new TextEncoder().encode(text);
  const redactor = new Redactor(new SecretForms(secrets));
  const out: number[] = [];
  let from = 0;
  for (const end of [...cuts.map((cut) => Math.floor(cut * bytes.length)).sort((a, b) => a - b), bytes.length]) {
    out.push(...redactor.push(bytes.slice(from, end)));
    from = end;
  }
  out.push(...redactor.end());
  return new TextDecoder().decode(new Uint8Array(out));
}

Deno.test("a secret never passes, however the bytes are cut, and the length stays", () => {
  const part = fc.oneof(fc.string(), fc.constant(SECRET), fc.constantFrom("sk-", "sk-aab-", "aab", "s"));
  const fractions = fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 12 });
  fc.assert(
    fc.property(fc.array(part), fractions, (parts, cuts) => {
      const text = parts.join("");
      const passed = pass(text, cuts);
      assert(!passed.includes(SECRET));
      assertEquals(new TextEncoder().encode(passed).length, new TextEncoder().encode(text).length);
      if (!text.includes(SECRET)) assertEquals(passed, text);
    }),
    { numRuns: 500 },
  );
});

Deno.test("only what could begin a secret is held back", () => {
  const redactor = new Redactor(new SecretForms([SECRET]));
  const push = (text: string) => new TextDecoder().decode(redactor.push(new TextEncoder().encode(text)));
  assertEquals(push("hello sk-"), "hello ");
  assertEquals(push("not"), "sk-not");
  assertEquals(push("data\n\n"), "data\n\n");
  assertEquals(new Redactor(new SecretForms([""])).text("x"), "x");
});

Deno.test("secrets that overlap pass in no part, however the bytes are cut", () => {
  const text = fc.string({ unit: fc.constantFrom("a", "b", "c"), maxLength: 24 });
  const secrets = fc.array(text.map((each) => each.slice(0, 5)), { maxLength: 4 });
  const fractions = fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 8 });
  fc.assert(
    fc.property(text, secrets, fractions, (sent, hidden, cuts) => {
      assertEquals(pass(sent, cuts, hidden), hideSecrets(sent, hidden, (part) => "*".repeat(part.length)));
    }),
    { numRuns: 500 },
  );
});

const LONG = "sk-real/4f1d9c0b7a6e5d3c2b1a";
const json = (char: string, digits = 4) => `\\u${char.charCodeAt(0).toString(16).padStart(digits, "0")}`;
const ESCAPES: ((char: string) => string)[] = [
  (char) => char,
  (char) => json(char),
  (char) => json(char).replace(/[a-f]/g, (digit) => digit.toUpperCase()),
  (char) => `\\\\${json(char)}`,
  (char) => char === "/" ? "\\/" : char,
  (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`,
  (char) => `&#${char.charCodeAt(0)};`,
  (char) => `&#x00${char.charCodeAt(0).toString(16)};`,
  (char) => `%25${char.charCodeAt(0).toString(16)}`,
  (char) => `%2525${char.charCodeAt(0).toString(16)}`,
  (char) => `&#${char.charCodeAt(0)}`,
  (char) => `&amp;#${char.charCodeAt(0)};`,
  (char) => ({ "-": "&hyphen;", "/": "&sol;" })[char] ?? char,
  (char) => `${json("&")}#${char.charCodeAt(0)};`,
  (char) => `${json("%")}${char.charCodeAt(0).toString(16)}`,
];

Deno.test("a secret passes under no escapes of its characters, however they are mixed and cut", () => {
  const escapes = fc.array(fc.constantFrom(...ESCAPES), { minLength: LONG.length, maxLength: LONG.length });
  const fractions = fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 12 });
  const around = fc.string({ unit: fc.constantFrom("s", "k", "-", "\\", "%", "&", "u", "0", " "), maxLength: 8 });
  fc.assert(
    fc.property(escapes, fractions, around, around, (each, cuts, before, after) => {
      const escaped = [...LONG].map((char, index) => each[index]!(char)).join("");
      const passed = pass(`${before} ${escaped} ${after}`, cuts, [LONG]);
      assertEquals(passed, `${before} ${"*".repeat(escaped.length)} ${after}`);
    }),
    { numRuns: 500 },
  );
});

Deno.test("a secret passes neither in base64 nor in hex, whatever stands around it", () => {
  const fractions = fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 4 });
  fc.assert(
    fc.property(fc.string({ maxLength: 8 }), fc.string({ maxLength: 8 }), fractions, (before, after, cuts) => {
      const bytes = new TextEncoder().encode(`${before}${LONG}${after}`);
      for (const packed of [bytes.toBase64(), bytes.toBase64({ alphabet: "base64url" }), bytes.toHex()]) {
        const hidden = pass(packed, cuts, [LONG]);
        assertEquals(hidden.length, packed.length);
        // At most the characters at both ends that it shares with what stands around it.
        assert([...hidden].filter((char) => char === "*").length >= LONG.length * 4 / 3 - 2, hidden);
      }
    }),
    { numRuns: 300 },
  );
});

const inLines = (text: string, columns: number, end: string) =>
  text.replace(new RegExp(`.{${columns}}`, "g"), `$&${end}`);

Deno.test("a secret passes neither in base64 nor in hex that is in lines or has blanks in it", () => {
  const secret = LONG.repeat(4);
  const bytes = new TextEncoder().encode(`Bearer ${secret}!`);
  const [base64, hex] = [bytes.toBase64(), bytes.toHex()];
  const parted: [string, RegExp][] = [
    ...["\n", "\r\n", "\\n", "\\r\\n", "\n    "].flatMap((end): [string, RegExp][] => [
      [inLines(base64, 76, end), /[\r\n ]|\\[rn]/g],
      [inLines(base64, 16, end), /[\r\n ]|\\[rn]/g],
      [inLines(hex, 32, end), /[\r\n ]|\\[rn]/g],
    ]),
    ...[" ", ":", ", "].map((blank): [string, RegExp] => [inLines(hex, 2, blank), /[ :,]/g]),
    [hex.replace(/../g, "\\x$&"), /\\x/g],
    [hex.toUpperCase().replace(/../g, "\\\\x$&"), /\\\\x/g],
  ];
  const fractions = fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { maxLength: 12 });
  fc.assert(
    fc.property(fc.constantFrom(...parted), fractions, ([text, between], cuts) => {
      const passed = pass(text, cuts, [secret]);
      assertEquals(passed.match(between), text.match(between), "what parts it stays");
      const shown = passed.replace(between, "").replaceAll("*", "");
      // What stands before and behind it, and a character that it shares with each.
      assert(shown.length <= 18, passed);
    }),
    { numRuns: 300 },
  );
});

Deno.test("a secret that the last bytes end passes under no escape", () => {
  for (const text of [LONG.replace(/a$/, "&#97"), LONG.replace(/a$/, "%2561")]) {
    assertEquals(pass(text, [0.5], [LONG]), "*".repeat(text.length));
  }
});

Deno.test("a header's name with a secret in it is known in any case; other text stays as it is", () => {
  const redactor = new Redactor(new SecretForms([LONG.toUpperCase()]));
  assert(redactor.hasSecret(`x-${LONG.replace("/", "%2F").toLowerCase()}-y`));
  assert(!redactor.hasSecret("x-request-id"));
  const text = "\\u0073k-real 100% &#115;k \\\\ \u00e9";
  assertEquals(new Redactor(new SecretForms([LONG])).text(text), text);
});
