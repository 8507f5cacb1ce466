import { assert, assertEquals, assertThrows } from "@std/assert";
import fc from "../../tests/packages/fast_check.ts";
import { InvalidJson, MAX_JSON_DEPTH, parseStrictJson } from "./strict_json.ts";

const parse = (text: string) => parseStrictJson(new TextEncoder().encode(text));

Deno.test("any JSON that a serializer writes is read as it is", () => {
  const indent = fc.constantFrom(undefined, 2, "\t");
  fc.assert(fc.property(fc.jsonValue({ maxDepth: 8 }), indent, (value, space) => {
    const text = JSON.stringify(value, null, space);
    assertEquals(parse(text), JSON.parse(text));
  }));
});

Deno.test("a key that stands twice in one object is refused, escaped or not and at any depth", () => {
  const escaped = (key: string) => [...key].map((char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`);
  const key = fc.stringMatching(/^[a-z]{1,8}$/);
  fc.assert(fc.property(key, fc.nat(5), fc.nat(5), (name, before, depth) => {
    const others = Array.from({ length: before }, (_, at) => `"other${at}": "\\"}{["`).map((pair) => `${pair},`).join(
      "",
    );
    for (const again of [name, escaped(name).join(""), `${escaped(name)[0]}${name.slice(1)}`]) {
      const inner = `{"${name}": 1, ${others} "${again}" \n: 2}`;
      const text = `${'{"a":['.repeat(depth)}${inner}${"]}".repeat(depth)}`;
      assertThrows(() => parse(text), InvalidJson, "twice");
    }
  }));
  assertEquals(parse('{"a":{"b":1},"b":1,"c":[{"b":1},{"b":1}]}'), { a: { b: 1 }, b: 1, c: [{ b: 1 }, { b: 1 }] });
  assertEquals(Object.keys(parse('{"__proto__":1,"constructor":2}') as object), ["__proto__", "constructor"]);
  assertThrows(() => parse('{"__proto__":1,"__proto__":2}'), InvalidJson, "twice");
});

Deno.test("nesting is bounded, and an error does not quote the body", () => {
  const nested = (depth: number) => "[".repeat(depth) + "]".repeat(depth);
  parse(nested(MAX_JSON_DEPTH));
  for (const depth of [MAX_JSON_DEPTH + 1, 1_000_000]) assertThrows(() => parse(nested(depth)), InvalidJson, "nested");
  const limited = (text: string) => parseStrictJson(text, { max_marks: 3 });
  assertEquals(limited('["[,,,,]",1,2]'), ["[,,,,]", 1, 2]);
  // It is refused before it is parsed: it is no JSON.
  assertThrows(() => limited("[1,2,3,"), InvalidJson, "more than 3 opening brackets");
  const error = assertThrows(() => parse('{"key": sk-secret-value}'), InvalidJson);
  assert(!error.message.includes("secret"), error.message);
});

Deno.test("numbers that no float holds, and strings that are no text, are refused at any depth", () => {
  const inside = (json: string) => [json, `[0, ${json}]`, `{"a": {"b": [${json}]}}`];
  for (const number of ["1e999", "-1e999", "1E+400", `1${"0".repeat(400)}`, `-${"9".repeat(309)}.5`]) {
    for (const text of inside(number)) assertThrows(() => parse(text), InvalidJson, "too large");
  }
  for (const number of ["1e308", "-0.5e-999", "123456789012345678901234567890", `0.${"1".repeat(400)}`]) {
    for (const text of inside(number)) assertEquals(parse(text), JSON.parse(text));
  }
  const halves = ['"\\ud83d"', '"\\ude00\\ud83d"', '"a\\uDBFFb"', '"\\ud83d\\n\\ude00"'];
  for (const half of halves) {
    for (const text of [...inside(half), `{${half}: 1}`]) {
      assertThrows(() => parse(text), InvalidJson, "surrogate");
      assertEquals(parseStrictJson(text, { any_text: true }), JSON.parse(text));
    }
  }
  assertThrows(() => parseStrictJson('"\ud83d"'), InvalidJson, "surrogate");
  for (const whole of ['"\\ud83d\\ude00"', '"\\\\ud83d"', '"\u{1f600}"']) assertEquals(parse(whole), JSON.parse(whole));
});
