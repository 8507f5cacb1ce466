/**
 * One text for each value of JSON: what is hashed, so that another program can compute the same digest.
 */

/** What has a canonical text: any value of JSON; members that are undefined count as absent. */
export type JsonLike =
  | null
  | boolean
  | number
  | string
  | readonly JsonLike[]
  | { readonly [name: string]: JsonLike | undefined };

/** The value as RFC 8785 (JCS) writes it: no blanks, members sorted by the UTF-16 units of their names. */
export function canonicalJson(value: JsonLike): string {
  if (isList(value)) return `[${value.map(canonicalJson).join(",")}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const members = Object.keys(value).sort().flatMap((name) => {
    const member = value[name];
    return member === undefined ? [] : `${JSON.stringify(name)}:${canonicalJson(member)}`;
  });
  return `{${members.join(",")}}`;
}

function isList(value: JsonLike): value is readonly JsonLike[] {
  return Array.isArray(value);
}
