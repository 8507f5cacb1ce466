/**
 * Writes broker/client/mod.d.mts: the client of the broker as a package offers it. Its records follow from schemas, whose
 * inferred types a registry cannot show and readers cannot read; here they are written out. A test compares.
 *
 *     deno run -A --config tests/broker_types/deno.json tests/broker_types/main.ts
 *
 * It has a configuration of its own, because valibot would take TypeScript along wherever the project names it.
 */

import { join } from "node:path";
import ts from "typescript";

const ROOT = join(import.meta.dirname!, "../..");
const SOURCE = join(ROOT, "broker/client/client.ts");
const ENTRY = join(ROOT, "broker/client/mod.mjs");
/** The file that this writes. */
export const TYPES: string = join(ROOT, "broker/client/mod.d.mts");

/** The declarations, as the file holds them before it is formatted. */
export async function brokerTypes(): Promise<string> {
  const program = await load();
  return new Printer(program).print((await Deno.readTextFile(ENTRY)).split("*/")[1]!.trim() + "*/");
}

/** The program as TypeScript sees it: packages are found where the runtime keeps them. */
async function load(): Promise<ts.Program> {
  const { stdout } = await new Deno.Command(Deno.execPath(), { args: ["info", "--json"] }).output();
  const { npmCache } = JSON.parse(new TextDecoder().decode(stdout)) as { npmCache: string };
  const valibot = join(npmCache, "registry.npmjs.org/valibot/1.5.0/dist/index.d.mts");
  return ts.createProgram([SOURCE], {
    allowImportingTsExtensions: true,
    exactOptionalPropertyTypes: true,
    lib: ["lib.esnext.d.ts", "lib.dom.d.ts"],
    module: ts.ModuleKind.ESNext,
    moduleResolution: ts.ModuleResolutionKind.Bundler,
    noEmit: true,
    paths: { "valibot": [valibot], "npm:valibot@1.5.0": [valibot] },
    resolveJsonModule: true,
    strict: true,
    target: ts.ScriptTarget.ESNext,
    types: [],
  });
}

/** Prints a class, and every type that its methods name. */
class Printer {
  readonly #checker: ts.TypeChecker;
  readonly #source: ts.SourceFile;
  /** Aliases of the project by what they stand for: an inferred type does not know its name. */
  readonly #aliases = new Map<ts.Type, ts.TypeAliasDeclaration>();
  /** What is to be declared, and where the project declares it. */
  readonly #named = new Map<string, { type: ts.Type; node: ts.Node }>();

  constructor(program: ts.Program) {
    this.#checker = program.getTypeChecker();
    this.#source = program.getSourceFile(SOURCE)!;
    for (const file of program.getSourceFiles().filter(({ fileName }) => fileName.startsWith(`${ROOT}/`))) {
      for (const node of file.statements) {
        if (!ts.isTypeAliasDeclaration(node) || node.typeParameters !== undefined) continue;
        const type = this.#checker.getTypeAtLocation(node.name);
        const has_shape = type.isUnion() || (type.flags & (ts.TypeFlags.Object | ts.TypeFlags.Intersection)) !== 0;
        if (has_shape && !this.#aliases.has(type)) this.#aliases.set(type, node);
      }
    }
  }

  print(module_doc: string): string {
    const found = this.#source.statements.find((node): node is ts.ClassDeclaration =>
      ts.isClassDeclaration(node) && node.name?.text === "BrokerClient"
    )!;
    const parts = [`${comment(found)}export declare class BrokerClient {\n${this.#members(found)}}\n`];
    const done = new Set<string>();
    for (let left = true; left;) {
      left = false;
      for (const [name, { type, node }] of [...this.#named]) {
        if (done.has(name)) continue;
        done.add(name);
        left = true;
        parts.push(`${comment(node)}export type ${name} = ${this.#type(type, name)};\n`);
      }
    }
    return `${module_doc}\n\n${parts.join("\n")}`;
  }

  #members(declaration: ts.ClassDeclaration): string {
    return declaration.members.flatMap((member) => {
      if (member.name !== undefined && ts.isPrivateIdentifier(member.name)) return [];
      const doc = comment(member);
      if (ts.isConstructorDeclaration(member)) return [`${doc}constructor(${this.#parameters(member)});\n`];
      if (ts.isPropertyDeclaration(member)) {
        const type = this.#type(this.#checker.getTypeAtLocation(member));
        return [`${doc || "/** Where the broker is. */\n"}readonly ${member.name.getText()}: ${type};\n`];
      }
      if (!ts.isMethodDeclaration(member)) return [];
      const result = this.#checker.getSignatureFromDeclaration(member)!.getReturnType();
      return [`${doc}${member.name.getText()}(${this.#parameters(member)}): ${this.#type(result)};\n`];
    }).join("\n");
  }

  #parameters(member: ts.MethodDeclaration | ts.ConstructorDeclaration): string {
    return member.parameters.map((parameter) => {
      const optional = parameter.initializer !== undefined || parameter.questionToken !== undefined;
      const type = this.#type(this.#checker.getTypeAtLocation(parameter));
      return `${parameter.name.getText()}${optional ? "?" : ""}: ${type}`;
    }).join(", ");
  }

  /** A type; those of the project that have a name by it, unless it is the one that is being declared. */
  #type(type: ts.Type, declaring?: string): string {
    const symbol = type.aliasSymbol ?? (type.flags & ts.TypeFlags.Object ? type.getSymbol() : undefined);
    const node = this.#aliases.get(type) ?? symbol?.declarations?.find(isOfProject);
    const name = node?.name.text;
    if (name !== undefined && name !== declaring) {
      this.#named.set(name, { type, node: node! });
      return name;
    }
    const present = this.#checker.getNonNullableType(type);
    if (present !== type && this.#aliases.has(present)) {
      const rest = (type as ts.UnionType).types.filter((each) =>
        each.flags & (ts.TypeFlags.Undefined | ts.TypeFlags.Null)
      );
      return [this.#type(present), ...rest.map((each) => this.#checker.typeToString(each))].join(" | ");
    }
    if (type.isUnion() && !(type.flags & ts.TypeFlags.Boolean)) {
      // A union has `boolean` as its two values.
      const texts = type.types.map((each) => this.#type(each));
      const values = texts.filter((text) => text !== "true" && text !== "false");
      const both = texts.length - values.length === 2 ? ["boolean"] : texts.filter((text) => !values.includes(text));
      return [...values, ...both].join(" | ");
    }
    if (!(type.flags & (ts.TypeFlags.Object | ts.TypeFlags.Intersection))) return this.#checker.typeToString(type);
    const reference = type as ts.TypeReference;
    if (this.#checker.isArrayType(type) || this.#checker.isTupleType(type)) {
      const items = this.#checker.getTypeArguments(reference).map((each) => this.#type(each));
      if (this.#checker.isTupleType(type)) return `[${items.join(", ")}]`;
      const is_readonly = symbol?.getName() === "ReadonlyArray";
      return is_readonly ? `readonly (${items[0]})[]` : `(${items[0]})[]`;
    }
    const global = symbol?.getName() ?? "";
    if (symbol?.declarations?.some(isOfPlatform)) {
      const items = this.#checker.getTypeArguments(reference).map((each) => this.#type(each));
      // The value that a generator is given back is of any type unless it is declared.
      const given = items.filter((item) => item !== "any");
      return given.length === 0 ? global : `${global}<${given.join(", ")}>`;
    }
    const [signature] = type.getCallSignatures();
    if (signature !== undefined) {
      const parameters = signature.getParameters().map((each) =>
        `${each.name}: ${this.#type(this.#checker.getTypeOfSymbol(each))}`
      );
      return `((${parameters.join(", ")}) => ${this.#type(signature.getReturnType())})`;
    }
    return this.#object(type);
  }

  #object(type: ts.Type): string {
    const index = this.#checker.getIndexInfoOfType(type, ts.IndexKind.String);
    const lines = this.#checker.getPropertiesOfType(type).map((property) => {
      const optional = property.flags & ts.SymbolFlags.Optional;
      const doc = ts.displayPartsToString(property.getDocumentationComment(this.#checker));
      const value = this.#type(this.#checker.getTypeOfSymbol(property));
      const name = /^[a-z_]\w*$/i.test(property.name) ? property.name : JSON.stringify(property.name);
      return `${doc === "" ? "" : `/** ${doc.replaceAll("\n", " ")} */\n`}${name}${optional ? "?" : ""}: ${value};\n`;
    });
    if (index !== undefined) lines.push(`[key: string]: ${this.#type(index.type)};\n`);
    return `{\n${lines.join("")}}`;
  }
}

type NamedType = ts.TypeAliasDeclaration | ts.InterfaceDeclaration;

function isOfProject(node: ts.Declaration): node is NamedType {
  return node.getSourceFile().fileName.startsWith(ROOT) &&
    (ts.isTypeAliasDeclaration(node) || ts.isInterfaceDeclaration(node));
}

/** Types of the platform and of the language are not written out. */
function isOfPlatform(node: ts.Declaration): boolean {
  return ts.isInterfaceDeclaration(node) && /\/typescript\/.*\/lib\.[^/]*\.d\.ts$/.test(node.getSourceFile().fileName);
}

/** The comment before a declaration, with a line end; empty without one. A type that points at its schema has its words. */
function comment(node: ts.Node): string {
  const [doc] = (node as ts.Node & { jsDoc?: ts.JSDoc[] }).jsDoc ?? [];
  const text = doc?.getText() ?? "";
  const schema = /^\/\*\* See \{@linkcode (\w+)\}\. \*\/$/.exec(text)?.[1];
  const declared = node.getSourceFile().statements.find((statement) =>
    ts.isVariableStatement(statement) && statement.declarationList.declarations[0]?.name.getText() === schema
  );
  if (declared !== undefined) return comment(declared);
  return text === "" ? "" : `${text}\n`;
}

if (import.meta.main) {
  const text = await brokerTypes();
  if (Deno.args.includes("--print")) {
    console.log(text);
    Deno.exit(0);
  }
  await Deno.writeTextFile(TYPES, text);
  await new Deno.Command(Deno.execPath(), { args: ["fmt", "--quiet", TYPES] }).output();
}
