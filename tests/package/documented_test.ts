import { assertEquals, assertGreater } from "@std/assert";
import config from "../../deno.json" with { type: "json" };
import { ERROR_CODES } from "../../lib/errors.ts";

interface JsDoc {
  doc?: string;
  tags?: { kind: string; doc?: string; type?: string }[];
}

interface Member {
  name: string;
  jsDoc?: JsDoc;
  accessibility?: "private" | "protected";
}

interface Declaration {
  kind: string;
  jsDoc?: JsDoc;
  location?: { filename: string };
  def?: { methods?: Member[] };
}

interface Entry {
  module_doc?: JsDoc;
  symbols: { name: string; declarations: Declaration[] }[];
}

/** A function, a class, or a method of one, and the examples that may show it: its own, its class's, those of its file. */
interface Export {
  name: string;
  kind: "function" | "class" | "method";
  /** How a program that uses it is recognised. */
  use: RegExp;
  doc: JsDoc | undefined;
  around: (JsDoc | undefined)[];
}

async function entries(): Promise<Entry[]> {
  const libraries = Object.entries(config.exports).filter(([name]) => name !== "./cli").map(([, path]) => path);
  const args = ["doc", "--json", ...libraries];
  const { stdout } = await new Deno.Command(Deno.execPath(), { args }).output();
  return Object.values((JSON.parse(new TextDecoder().decode(stdout)) as { nodes: Record<string, Entry> }).nodes);
}

function exportsOf({ module_doc, symbols }: Entry): Export[] {
  const declarations = symbols.flatMap(({ name, declarations }) => declarations.map((each) => ({ name, ...each })));
  return declarations.flatMap(({ name, kind, jsDoc, location, def }) => {
    if (kind !== "function" && kind !== "class") return [];
    const beside = declarations.filter((other) => other.location?.filename === location?.filename);
    const around = [module_doc, ...beside.map((other) => other.jsDoc)];
    const methods = (def?.methods ?? []).filter((method) => {
      const internal = method.jsDoc?.tags?.some((tag) => tag.kind === "internal");
      return method.accessibility === undefined && !internal && !method.name.startsWith("[");
    });
    return [
      { name, kind, use: new RegExp(`\\b${name}\\b`), doc: jsDoc, around },
      ...methods.map((method) => ({
        name: `${name}.${method.name}`,
        kind: "method" as const,
        use: new RegExp(`\\.${method.name}\\(`),
        doc: method.jsDoc,
        around: [module_doc, jsDoc],
      })),
    ];
  });
}

function examples(doc: JsDoc | undefined): string[] {
  return (doc?.tags ?? []).filter(({ kind }) => kind === "example").map((tag) => tag.doc ?? "");
}

const ALL = (await entries()).flatMap(exportsOf);

Deno.test("every exported function, class and method is shown by an example that runs", () => {
  assertGreater(ALL.length, 60);
  const missing = ALL.filter(({ use, doc, around }) => {
    return examples(doc).length === 0 && !around.flatMap(examples).some((example) => use.test(example));
  });
  assertEquals(missing.map(({ name }) => name), []);
  const not_run = ALL.filter(({ doc }) => examples(doc).some((example) => !/^```ts$/m.test(example)));
  assertEquals(not_run.map(({ name }) => name), []);
});

/** Exports that throw nothing, and why. */
const THROWS_NOTHING: Readonly<Record<string, string>> = {
  hasCode: "compares",
  messageOf: "formats anything",
  formatAddress: "formats a checked value",
  isS3Location: "compares",
  parseTxid: "is undefined for anything else",
  "Client.closed": "resolves however the connection ends",
  "Client.close": "ends what may have ended",
  "Store.close": "ends what may have ended",
  "Store.openIn": "is empty where nothing can be listed",
};

Deno.test("every exported function and method says what it throws, except the few that throw nothing", () => {
  const silent = ALL.filter(({ kind, doc }) => kind !== "class" && !doc?.tags?.some((tag) => tag.kind === "throws"));
  assertEquals(silent.map(({ name }) => name).filter((name) => !(name in THROWS_NOTHING)), []);
});

Deno.test("every exported function, class and method has a sentence", () => {
  assertEquals(ALL.filter(({ doc }) => (doc?.doc ?? "") === "").map(({ name }) => name), []);
});

Deno.test("every @throws of an export names codes that there are", () => {
  const unknown = ALL.flatMap(({ name, doc }) => {
    const thrown = (doc?.tags ?? []).filter(({ kind, type }) => kind === "throws" && type === "TaskdError");
    const codes = thrown.flatMap((tag) =>
      [...(tag.doc ?? "").matchAll(/`([a-z]+(?:_[a-z]+)*)`/g)].map(([, code]) => code!)
    );
    const wrong = codes.filter((code) => !Object.hasOwn(ERROR_CODES, code));
    const none = thrown.length > 0 && codes.length === 0 && !/as \{@linkcode/.test(JSON.stringify(thrown));
    return [...wrong, ...none ? ["no code"] : []].map((code) => `${name}: ${code}`);
  });
  assertEquals(unknown, []);
});
