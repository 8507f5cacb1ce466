/**
 * Writes broker/client/mod.d.mts: the client of the broker as a package offers it. Its records follow from schemas, whose
 * inferred types a registry cannot show and readers cannot read; here they are written out. What that file says of the
 * module and of the client's methods is its own and stays. A test compares.
 *
 *     deno run -A --config tests/broker_types/deno.json tests/broker_types/main.ts
 *
 * It has a configuration of its own, because valibot would take TypeScript along wherever the project names it.
 */

import { join } from "node:path";
import ts from "typescript";

const ROOT = join(import.meta.dirname!, "../..");
const SOURCE = join(ROOT, "broker/client/client.ts");
/** The file that this writes. */
export const TYPES: string = join(ROOT, "broker/client/mod.d.mts");

/** The declarations, as the file holds them before it is formatted. */
export async function brokerTypes(): Promise<string> {
  const program = await load();
  return new Printer(program, await Deno.readTextFile(TYPES)).print();
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
  /** Those of unions by their members: an optional field has one more. */
  readonly #unions = new Map<string, ts.Type>();
  /** What is to be declared, and where the project declares it. */
  readonly #named = new Map<string, { type: ts.Type; node: ts.Node }>();
  /** The file as it is. */
  readonly #written: ts.SourceFile;

  constructor(program: ts.Program, written: string) {
    this.#written = ts.createSourceFile(TYPES, written, ts.ScriptTarget.ESNext, true);
    this.#checker = program.getTypeChecker();
    this.#source = program.getSourceFile(SOURCE)!;
    for (const file of program.getSourceFiles().filter(({ fileName }) => fileName.startsWith(`${ROOT}/`))) {
      for (const node of file.statements) {
        if (!ts.isTypeAliasDeclaration(node) || node.typeParameters !== undefined) continue;
        const type = this.#checker.getTypeAtLocation(node.name);
        const has_shape = type.isUnion() || (type.flags & (ts.TypeFlags.Object | ts.TypeFlags.Intersection)) !== 0;
        if (!has_shape || this.#aliases.has(type)) continue;
        this.#aliases.set(type, node);
        if (type.isUnion()) this.#unions.set(membersKey(type), type);
      }
    }
  }

  print(): string {
    const module_doc = `${this.#written.text.split("*/")[0]}*/`;
    const found = clientOf(this.#source);
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
    const written = new Map(clientOf(this.#written).members.map((member) => [member.name?.getText(), member]));
    return declaration.members.flatMap((member) => {
      if (member.name !== undefined && ts.isPrivateIdentifier(member.name)) return [];
      const doc = comment(written.get(member.name?.getText()) ?? member);
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
    if (node !== undefined && ts.isTypeAliasDeclaration(node) && ts.isIntersectionTypeNode(node.type)) {
      return node.type.types.map((part) => this.#type(this.#checker.getTypeFromTypeNode(part))).join(" & ");
    }
    const union = declaring === undefined && type.isUnion() ? this.#unions.get(membersKey(type)) : undefined;
    if (union !== undefined && union !== type) return `${this.#type(union)} | undefined`;
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
      const item = /^\w+$/.test(items[0]!) ? items[0] : `(${items[0]})`;
      return `${symbol?.getName() === "ReadonlyArray" ? "readonly " : ""}${item}[]`;
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

  #typeText(property: ts.Symbol): string {
    return this.#checker.typeToString(
      this.#checker.getTypeOfSymbol(property),
      undefined,
      ts.TypeFormatFlags.NoTruncation,
    );
  }

  #object(type: ts.Type): string {
    const index = this.#checker.getIndexInfoOfType(type, ts.IndexKind.String);
    const properties = this.#checker.getPropertiesOfType(type);
    const shared = SHARED.flatMap((name) => {
      const [type, node] = [...this.#aliases].find(([, node]) => node.name.text === name)!;
      const names = new Set(this.#checker.getPropertiesOfType(type).map((property) => property.name));
      const found = properties.filter((property) => {
        const own = type.getProperty(property.name);
        return own !== undefined && this.#typeText(own) === this.#typeText(property);
      });
      return found.length === names.size && names.size < properties.length ? [{ name, type, node, names }] : [];
    })[0];
    if (shared !== undefined) this.#named.set(shared.name, shared);
    const lines = properties.filter((property) => !shared?.names.has(property.name)).map((property) => {
      const optional = property.flags & ts.SymbolFlags.Optional;
      const doc = ts.displayPartsToString(property.getDocumentationComment(this.#checker));
      const value = this.#type(this.#checker.getTypeOfSymbol(property));
      const name = /^[a-z_]\w*$/i.test(property.name) ? property.name : JSON.stringify(property.name);
      return `${doc === "" ? "" : `/** ${doc.replaceAll("\n", " ")} */\n`}${name}${optional ? "?" : ""}: ${value};\n`;
    });
    if (index !== undefined) lines.push(`[key: string]: ${this.#type(index.type)};\n`);
    const plain = lines.join(" ").replaceAll("\n", "");
    const text = plain.length > MAX_INLINE || plain.includes("/**") ? `{\n${lines.join("")}}` : `{ ${plain} }`;
    return shared === undefined ? text : `${shared.name} & ${text}`;
  }
}

/** Characters of the fields that stand on one line where none has a comment. */
const MAX_INLINE = 80;
/** What several records have in common, by its alias; they are written as that and the rest. */
const SHARED = ["Tally", "SpendFigures"];

/** The members of a union other than undefined, as a key. */
function membersKey(type: ts.UnionType): string {
  return type.types.filter((each) => !(each.flags & ts.TypeFlags.Undefined)).map((each) =>
    (each as unknown as { id: number }).id
  ).sort().join();
}

/** The class of the client in a file. */
function clientOf(file: ts.SourceFile): ts.ClassDeclaration {
  return file.statements.find((node): node is ts.ClassDeclaration =>
    ts.isClassDeclaration(node) && node.name?.text === "BrokerClient"
  )!;
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

/** The comment before a declaration, with a line end; empty without one. A type without one has its schema's. */
function comment(node: ts.Node): string {
  const [doc] = (node as ts.Node & { jsDoc?: ts.JSDoc[] }).jsDoc ?? [];
  const text = doc?.getText() ?? "";
  const schema = text === "" && ts.isTypeAliasDeclaration(node)
    ? /typeof (\w+)>$/.exec(node.type.getText())?.[1]
    : undefined;
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
