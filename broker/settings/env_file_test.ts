import { assertEquals, assertThrows } from "@std/assert";
import * as fc from "../../tests/packages/fast_check.ts";
import { TaskdError } from "../../lib/errors.ts";
import { changeEnvFile, parseEnvFile } from "./env_file.ts";
import { InvalidConfig } from "./invalid_config.ts";

const parse = (text: string) => Object.fromEntries(parseEnvFile("api-keys.env", text));

Deno.test("parseEnvFile() reads what shells read", () => {
  const table: [string, Record<string, string>][] = [
    ["", {}],
    ["A=b", { A: "b" }],
    ["export A=b\n  export  B=c\n", { A: "b", B: "c" }],
    ["# A=b\n\n  # c\nA=b # comment", { A: "b" }],
    ["A=b#c", { A: "b#c" }],
    ["A='b c # d'  # e", { A: "b c # d" }],
    ['A="b \\"c\\" \\\\ \\$d \\n"', { A: 'b "c" \\ $d \\n' }],
    ["A=$B${C}", { A: "$B${C}" }],
    ["A=", { A: "" }],
    ["A= # nothing", { A: "" }],
    ["A=''", { A: "" }],
    ["A=b\r\nB='c'\r\n", { A: "b", B: "c" }],
    ["\ufeffA=b", { A: "b" }],
    ["A=a=b==", { A: "a=b==" }],
  ];
  for (const [text, values] of table) assertEquals(parse(text), values, JSON.stringify(text));
});

Deno.test("a line that is not an assignment is refused by its number and not shown", () => {
  for (
    const line of [
      "sk-secret",
      "A: sk-secret",
      "A =sk-secret",
      "1A=sk-secret",
      "A='sk-secret",
      'A="sk-secret"x',
      "A=sk-secret b",
      "A=a'sk-secret'",
      "A=\\sk-secret",
      "A-B=sk-secret",
    ]
  ) {
    const error = assertThrows(() => parse(`# one\n${line}`), InvalidConfig);
    assertEquals(error.place, { file: "api-keys.env", line: 2, column: 1 }, line);
    assertEquals(`${error.message}${error.hint}`.includes("sk-secret"), false, line);
  }
});

Deno.test("a name that is given twice is refused", () => {
  assertThrows(() => parse("A=1\nB=2\nA=3"), InvalidConfig, "api-keys.env:3:1: A must be given once");
});

Deno.test("changeEnvFile() keeps every other line and merges a name that is given twice", () => {
  const text = "# mine\nexport A=1\n\nB='x' # old\nA=2\nC=3";
  assertEquals(
    changeEnvFile("f", text, new Map<string, string | null>([["A", "new"], ["B", null], ["D", "d e"]])),
    "# mine\n\nA=new\nC=3\nD='d e'\n",
  );
  assertEquals(changeEnvFile("f", "", new Map([["A", null]])), "");
});

Deno.test("every value that is written reads back, and the other lines stay", () => {
  const name = fc.stringMatching(/^[A-Z_][A-Z0-9_]{0,10}$/);
  const value = fc.string({ unit: fc.constantFrom(..."ab'\"\\$`# =é~!\u{1f600}") });
  fc.assert(fc.property(fc.dictionary(name, value), name, value, (before, changed, to) => {
    const text = changeEnvFile("f", "# head\n", new Map(Object.entries(before)));
    const after = changeEnvFile("f", text, new Map([[changed, to]]));
    assertEquals(parse(after), { ...before, [changed]: to });
  }));
});

Deno.test("a value with control characters is not written", () => {
  for (const value of ["a\nB=c", "a\r", "a\0", "\x1b", "\ud800"]) {
    assertThrows(() => changeEnvFile("f", "", new Map([["A", value]])), TaskdError);
  }
});

Deno.test("any text is parsed or refused with an InvalidConfig", () => {
  const unit = fc.constantFrom(..."A='\"\\#\n\r =\0exportB$");
  fc.assert(fc.property(fc.string({ unit, maxLength: 60 }), (text) => {
    try {
      parse(text);
    } catch (error) {
      assertEquals(error instanceof InvalidConfig, true);
    }
  }));
});
