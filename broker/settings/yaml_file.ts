/**
 * A YAML file as plain values, checked by a valibot schema; every error points at a line and a column.
 *
 * Accepted is what configuration needs: one document of maps with text keys, lists and scalars of YAML 1.2.
 * Aliases, tags, merge keys and duplicate keys are refused, since they let one line mean something far away from it.
 */

import { type Document, isCollection, isMap, LineCounter, type Node, parseDocument, visit } from "yaml";
import * as v from "valibot";
import { type ConfigPlace, describeValue, InvalidConfig, quoteText } from "./invalid_config.ts";

const MAX_FILE_LENGTH = 1_048_576;
/** The deepest nesting; the deepest setting needs seven levels. */
const MAX_DEPTH = 16;
const MAX_NODES = 20_000;

type Step = string | number;

export class YamlFile {
  /** The content as plain values: objects, arrays, text, numbers, booleans, null. An empty file is an empty object. */
  readonly value: unknown;
  readonly #file: string;
  readonly #text: string;
  readonly #lines = new LineCounter();
  readonly #document: Document;

  /**
   * @param file Its path, for messages.
   * @throws {InvalidConfig} when it is not YAML of the accepted kind, or too large.
   */
  constructor(file: string, text: string) {
    this.#file = file;
    this.#text = text;
    if (text.length > MAX_FILE_LENGTH) {
      throw new InvalidConfig("the file", this.#placeAt(0), `must have at most ${MAX_FILE_LENGTH} characters`);
    }
    this.#document = this.#parse();
    const fault = this.#document.errors[0] ?? this.#document.warnings[0];
    if (fault) {
      // The library's words without what it quotes, which may be a secret in the wrong file.
      const words = fault.message.replace(/["'`].*["'`]/s, "…").replace(/: .*$/s, "");
      const rule = /call stack/.test(words) ? "must be nested less deeply" : `must be YAML: ${words}`;
      throw new InvalidConfig("the text", this.#placeAt(fault.pos[0]), rule);
    }
    this.#checkNodes();
    this.value = this.#document.toJS() ?? {};
  }

  /**
   * @param secret Settings whose value no message shows.
   * @throws {InvalidConfig} for the first rule that is broken.
   */
  check<T>(schema: v.GenericSchema<unknown, T>, secret: readonly string[] = []): T {
    const result = v.safeParse(schema, this.value, { abortEarly: true });
    if (result.success) return result.output;
    throw this.#refusal(result.issues[0], secret);
  }

  placeOf(path: readonly Step[]): ConfigPlace {
    return this.#placeOfNode(this.#document.getIn(path, true));
  }

  #parse(): Document.Parsed {
    try {
      return parseDocument(this.#text, {
        version: "1.2",
        schema: "core",
        strict: true,
        uniqueKeys: true,
        stringKeys: true,
        prettyErrors: false,
        lineCounter: this.#lines,
      });
    } catch (cause) {
      // It recurses: a file of brackets alone exhausts the stack.
      if (!(cause instanceof RangeError)) throw cause;
      throw new InvalidConfig("the text", this.#placeAt(0), "must be nested less deeply");
    }
  }

  #checkNodes(): void {
    let count = 0;
    visit(this.#document, {
      Node: (key, node, path) => {
        const refuse = (rule: string) => new InvalidConfig("the value", this.#placeOfNode(node), rule);
        if (key !== "key" && ++count > MAX_NODES) throw refuse(`must be one of at most ${MAX_NODES} in the file`);
        if (path.filter(isCollection).length > MAX_DEPTH) {
          throw refuse(`must be nested at most ${MAX_DEPTH} levels deep`);
        }
        if (!("value" in node || "items" in node)) throw refuse("must be written out, without an alias");
        if (node.anchor !== undefined) throw refuse("must be written without an anchor");
        if (node.tag !== undefined) throw refuse("must be written without a tag");
      },
    });
  }

  #refusal(issue: v.BaseIssue<unknown>, secret: readonly string[]): InvalidConfig {
    const path = (issue.path ?? []).map(({ key }) => key as Step);
    const [rule = "", hint] = issue.message.split("\n", 2);
    const last = issue.path?.at(-1);
    if (last?.origin === "key") {
      const parent = path.slice(0, -1);
      const place = this.#placeOfKey(parent, String(last.key));
      // A key of a strict object is unknown or missing; any other breaks a rule of its own.
      if (issue.expected === "never") {
        const group = parent.length === 0 ? "" : ` in ${nameOf(parent)}`;
        return new InvalidConfig(`the key ${quoteText(String(last.key))}${group}`, place, rule, { hint });
      }
      if (issue.type === "strict_object") return new InvalidConfig(nameOf(parent), this.placeOf(parent), rule);
      const shown = describeValue(last.key);
      return new InvalidConfig(`${nameOf(parent)} (a key)`, place, rule, { shown, hint });
    }
    const node = this.#document.getIn(path, true);
    const name = nameOf(path);
    const shown = secret.includes(name) ? undefined : describeValue(last ? last.value : this.value, this.#source(node));
    return new InvalidConfig(name, this.#placeOfNode(node), rule, { shown, hint });
  }

  #source(node: unknown): string | undefined {
    const range = (node as Node | undefined)?.range;
    return range ? this.#text.slice(range[0], range[1]) : undefined;
  }

  #placeOfKey(parent: readonly Step[], key: string): ConfigPlace {
    const map = this.#document.getIn(parent, true);
    const pair = isMap<Node & { value: unknown }>(map) ? map.items.find((item) => item.key.value === key) : undefined;
    return this.#placeOfNode(pair?.key);
  }

  #placeOfNode(node: unknown): ConfigPlace {
    return this.#placeAt((node as Node | undefined)?.range?.[0] ?? 0);
  }

  #placeAt(offset: number): ConfigPlace {
    const { line, col } = this.#lines.linePos(offset);
    // Line 0 is the library's answer for an offset before the first line's start.
    return { file: this.#file, line: Math.max(1, line), column: Math.max(1, col) };
  }
}

/** A path as messages name it: `profiles.repos.github.com/o/r.setup[0][1]`. */
function nameOf(path: readonly Step[]): string {
  const name = path.map((step) => typeof step === "number" ? `[${step}]` : `.${step}`).join("");
  return name === "" ? "the file" : name.replace(/^\./, "");
}
