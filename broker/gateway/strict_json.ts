/**
 * JSON that can be read in one way only. Two parsers may pick different values of a duplicate key, and what the gateway
 * checked would not be what the vendor reads; so duplicates are refused at any depth, however the keys are escaped.
 */

import { Refusal } from "./refusal.ts";

/** Nesting that is accepted; deeper than any request of a client. */
export const MAX_JSON_DEPTH = 100;

/** Parses bytes as strict JSON; throws a {@linkcode Refusal}. */
export function parseStrictJson(bytes: Uint8Array): unknown {
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw new Refusal("bad_request", "The body is not UTF-8");
  }
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    // V8's message would quote the body.
    const at = /position (\d+)/.exec(error instanceof Error ? error.message : "")?.[1];
    throw new Refusal("bad_request", `The body is not JSON${at === undefined ? "" : `, at character ${at}`}`);
  }
  refuseDuplicates(text);
  return value;
}

function refuseDuplicates(text: string): void {
  // The keys of the open objects; undefined for an open array.
  const open: (Set<string> | undefined)[] = [];
  const path: string[] = [];
  for (let at = 0; at < text.length; at++) {
    switch (text.charCodeAt(at)) {
      case 0x22: {
        const end = stringEnd(text, at);
        const keys = open.at(-1);
        if (keys && isKey(text, end)) {
          const raw = text.slice(at + 1, end);
          const key = raw.includes("\\") ? String(JSON.parse(`"${raw}"`)) : raw;
          path[open.length - 1] = key;
          if (keys.has(key)) {
            const field = path.slice(0, open.length).join(".").slice(0, 200);
            throw new Refusal("bad_request", `The body has the key ${JSON.stringify(field)} twice`, field);
          }
          keys.add(key);
        }
        at = end;
        break;
      }
      case 0x7b:
        open.push(new Set());
        path.push("");
        break;
      case 0x5b:
        open.push(undefined);
        path.push("[]");
        break;
      case 0x7d:
      case 0x5d:
        open.pop();
        path.pop();
        break;
      default:
    }
    if (open.length > MAX_JSON_DEPTH) {
      throw new Refusal("bad_request", `The body is nested deeper than ${MAX_JSON_DEPTH} levels`);
    }
  }
}

/** Index of the quote that closes the string that opens at `at`. */
function stringEnd(text: string, at: number): number {
  for (let end = text.indexOf('"', at + 1);; end = text.indexOf('"', end + 1)) {
    let backslashes = 0;
    while (text.charCodeAt(end - 1 - backslashes) === 0x5c) backslashes++;
    if (backslashes % 2 === 0) return end;
  }
}

/** Whether the string that closes at `end` is followed by a colon: in valid JSON, only keys are. */
function isKey(text: string, end: number): boolean {
  let next = end + 1;
  while (text.charCodeAt(next) <= 0x20) next++;
  return text.charCodeAt(next) === 0x3a;
}
