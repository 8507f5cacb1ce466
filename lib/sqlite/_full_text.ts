/**
 * Which tables are nothing but the storage of a full-text table of FTS5: its index, the sizes of its documents, and the
 * text that the virtual table itself shows. A table of the application's that merely has such a name is none of them.
 */

/** `%_config` is left out: its few rows are a user's settings. */
const SUFFIXES = ["_data", "_idx", "_content", "_docsize"] as const;

/** SQLite keeps the definition from the name on as it was written; one with comments in it is not recognized. */
const DEFINITION =
  /^CREATE VIRTUAL TABLE (?:"(?:[^"]|"")*"|'(?:[^']|'')*'|`(?:[^`]|``)*`|\[[^\]]*\]|[^\s"'`[(]+)\s+USING\s+fts5\s*\(/i;

/**
 * The names of the tables in which the virtual table `name` keeps its data, if its definition is one of FTS5. Those that
 * SQLite does not take for its storage (`shadow` in `pragma_table_list`) are not, whatever their names.
 */
export function fullTextStorage(name: string, definition: string): string[] {
  const head = DEFINITION.exec(definition);
  if (head === null) return [];
  // FTS5 takes any beginning of an option's name. With these two, a table of that name is the application's own.
  const options = Array.from(
    definition.slice(head[0].length).matchAll(/(\w+)\s*=/g),
    ([, word]) => word!.toLowerCase(),
  );
  const has = (option: string) => options.some((word) => option.startsWith(word));
  return SUFFIXES.filter((suffix) =>
    !(suffix === "_content" && has("content") || suffix === "_docsize" && has("columnsize"))
  ).map((suffix) => name + suffix);
}
