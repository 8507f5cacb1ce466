/**
 * What a list of a contract's statements is made of. Tests prove them: a line `// conformance: <id> <id>` above a test
 * names what it proves. tests/conformance/README.md is written from both.
 */

/** One statement. */
export interface Statement {
  /** The name of its section, then a name that is unique in it. */
  id: string;
  /** The statement, in this project's words. */
  text: string;
  /** What of it does not hold, and why; docs/limitations.md says so too. */
  unmet?: string;
}

/** A section of a contract. */
export interface Section {
  /** `2`, or `b2` in the task broker's. */
  name: string;
  title: string;
  statements: Statement[];
}

/** A section; a statement that does not hold comes with what does not. */
export function section(
  name: number | string,
  title: string,
  statements: Record<string, string | [text: string, unmet: string]>,
): Section {
  const list = Object.entries(statements).map(([own, value]) =>
    typeof value === "string"
      ? { id: `${name}.${own}`, text: value }
      : { id: `${name}.${own}`, text: value[0], unmet: value[1] }
  );
  return { name: String(name), title, statements: list };
}
