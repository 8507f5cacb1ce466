import { assert, assertEquals } from "@std/assert";
import { nameOddity, oddities, skeleton } from "./characters.ts";
import { escapeJson, sanitizeLine, sanitizeText } from "./sanitize.ts";

/** What a reader does not see, by the files of Unicode 17.0: the engine's own classes are not asked. */
const UNSEEN: readonly (readonly [string, string])[] = [
  [
    "DerivedCoreProperties, Default_Ignorable_Code_Point",
    `ad 34f 61c 115f-1160 17b4-17b5 180b-180f 200b-200f 202a-202e \
2060-206f 3164 fe00-fe0f feff ffa0 fff0-fff8 1bca0-1bca3 1d173-1d17a e0000-e0fff`,
  ],
  ["PropList, White_Space and controls", "0-8 b-1f 7f-a0 1680 2000-200a 2028-2029 202f 205f 3000"],
  ["PropList, Bidi_Control", "61c 200e-200f 202a-202e 2066-2069"],
  ["UnicodeData, Cf", "600-605 6dd 70f 890-891 8e2 fff9-fffb 110bd 110cd 13430-1343f e0001 e0020-e007f"],
  ["UnicodeData, Co, Cs and no characters", "e000-f8ff d800-dfff fdd0-fdef fffe-ffff f0000-10ffff"],
  ["drawn as nothing", "2800 fffc 1d159 13441-13442 16fe4"],
];

function* codesOf(ranges: string): Generator<number> {
  for (const range of ranges.split(" ")) {
    const [first, last = first] = range.split("-").map((hex) => parseInt(hex, 16));
    for (let code = first!; code <= last!; code++) yield code;
  }
}

Deno.test("whatever a terminal or a page prints of all of Unicode is visible or escaped", () => {
  const unseen = new Set(UNSEEN.flatMap(([, ranges]) => [...codesOf(ranges)]));
  const escaped = /^(?:\\x[0-9a-f]{2}|\\u[0-9a-f]{4}|\\u\{[0-9a-f]{5,6}\}|\\[nrt])$/;
  let printed = 0;
  for (let code = 0; code <= 0x10ffff; code++) {
    const char = String.fromCodePoint(code);
    const line = sanitizeLine(char);
    if (line === char) {
      printed++;
      assert(!unseen.has(code) && !/\p{C}|\p{Z}/u.test(char.replace(" ", "")), `U+${code.toString(16)} is printed`);
    } else assert(escaped.test(line), `U+${code.toString(16)} becomes ${JSON.stringify(line)}`);
    // Only text of several lines keeps tabs and newlines.
    assertEquals(oddities(char).length > 0, sanitizeText(char) !== char, `the page, U+${code.toString(16)}`);
    if (char !== "\n" && char !== "\t") assertEquals(escapeJson(char) !== char, line !== char, `JSON, U+${code}`);
  }
  // 16.0 has 154,998 characters; escaping all of them would be no promise.
  assert(printed > 150_000, `${printed}`);
});

Deno.test("letters that pose as Latin ones are escaped within a Latin word, and nowhere else", () => {
  assertEquals(sanitizeLine("p\u0430ssword p\u03b1id \u13aancient"), "p\\u0430ssword p\\u03b1id \\u13aancient");
  for (const text of ["привет, world", "Ω ohm", "日本語text", "naïve", "λ x", "שלום"]) {
    assertEquals(sanitizeLine(text), text);
  }
});

Deno.test("a name that is not what it looks like is found, and a name of any language is not", () => {
  const table: [string, string][] = [
    ["a\u3164b", "has U+3164, which is not seen"],
    ["\u00ad", "has U+00AD, which is not seen"],
    ["src/\u2800/x", "has U+2800, which is not seen"],
    ["a\u{e0101}", "has U+E0101, which is not seen"],
    ["a\u{e0041}b", "has U+E0041, which is not seen"],
    ["a\u00a0b", "has U+00A0, which is not seen"],
    ["a\nb", "has U+000A, which is not seen"],
    ["a\\b", "has a backslash, which separates names on Windows"],
    ["a/ b", "has a space at an end"],
    ["b /c", "has a space at an end"],
    ["a\ufffd", "is not UTF-8"],
    ["p\u0430ckage.json", "mixes alphabets: p\u0430ckage"],
    ["\u0441\u043e\u0440\u0443.sh", "could be read as copy.sh"],
    ["src\u2215main.ts", "could be read as src/main.ts"],
    ["a\u2024sh", "could be read as a.sh"],
    ["\uff21\uff27\uff25\uff2e\uff34\uff33.md", "could be read as AGENTS.md"],
    ["\u13aa\u13ac.md", "mixes alphabets: \u13aa\u13ac"],
  ];
  for (const [name, why] of table) assertEquals(nameOddity(name), why);
  for (
    const name of [
      "src/a b.ts",
      "отчёт за май.md",
      "データbase.md",
      "über/ñandu.md",
      "한국어.txt",
      "it’s – fine.md",
      "नमस्ते.md",
      "שלום/مرحبا.txt",
      "🦕.md",
      "русский-english.md",
    ]
  ) assertEquals(nameOddity(name), undefined, name);
});

Deno.test("names that look alike have one skeleton", () => {
  for (const name of ["copy.sh", "COPY.sh", "\u0441\u043e\u0440\u0443.sh", "\uff43opy.sh"]) {
    assertEquals(skeleton(name), "copy.sh");
  }
  assertEquals(skeleton("\u0441\u043e\u0440t") === skeleton("copy"), false);
});
