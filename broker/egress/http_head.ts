/**
 * Heads of HTTP/1 messages, read strictly: what two parsers could read in two ways is no message here. What goes on to
 * the other side is rewritten from what was read, never copied.
 */

import { words } from "../../lib/text/words.ts";
import { Refused } from "./reasons.ts";

export const MAX_HEAD_BYTES = 64 << 10;
export const MAX_FIELDS = 128;

export interface HeaderField {
  name: string;
  key: string;
  value: string;
}

export type Framing = { by: "none" } | { by: "length"; bytes: number } | { by: "chunks" } | { by: "close" };

export interface RequestHead {
  method: string;
  /** As written: visible ASCII. */
  target: string;
  minor: 0 | 1;
  fields: HeaderField[];
}

export interface ResponseHead {
  status: number;
  phrase: string;
  minor: 0 | 1;
  fields: HeaderField[];
}

const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
const REQUEST_LINE = /^([!#$%&'*+.^_`|~0-9A-Za-z-]{1,32}) ([\x21-\x7e]+) HTTP\/1\.([01])$/;
const STATUS_LINE = /^HTTP\/1\.([01]) ([1-9]\d\d)(?: ([\t\x20-\x7e\x80-\xff]*))?$/;
const VALUE = /^[\t\x20-\x7e\x80-\xff]*$/;

/** Fields that speak of one connection only (RFC 9110, section 7.6.1, and what proxies also receive). */
const HOP_BY_HOP = new Set(words(`
  connection http2-settings keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer
  transfer-encoding upgrade
`));
/** Fields that frame or direct a message: no Connection field can have one dropped. */
const NEVER_NOMINATED = new Set(["host", "content-length", "transfer-encoding"]);

/** Reads a request's head, the empty line not included. Throws {@linkcode Refused} `malformed` or `head_too_large`. */
export function parseRequestHead(bytes: Uint8Array): RequestHead {
  const [line, ...rest] = lines(bytes);
  const match = REQUEST_LINE.exec(line!);
  if (match === null) throw new Refused("malformed");
  const [, method, target, minor] = match as unknown as [string, string, string, string];
  return { method, target, minor: minor === "0" ? 0 : 1, fields: rest.map(parseField) };
}

/** Reads a response's head, the empty line not included. Throws {@linkcode Refused} `upstream_malformed`. */
export function parseResponseHead(bytes: Uint8Array): ResponseHead {
  try {
    const [line, ...rest] = lines(bytes);
    const match = STATUS_LINE.exec(line!);
    if (match === null) throw new Refused("malformed");
    return {
      status: Number(match[2]),
      phrase: match[3] ?? "",
      minor: match[1] === "0" ? 0 : 1,
      fields: rest.map(parseField),
    };
  } catch {
    throw new Refused("upstream_malformed");
  }
}

function lines(bytes: Uint8Array): string[] {
  // One character per byte, so that no decoding hides one; TextDecoder's latin1 is windows-1252.
  let text = "";
  for (let at = 0; at < bytes.length; at += 4_096) text += String.fromCharCode(...bytes.subarray(at, at + 4_096));
  const found = text.split("\r\n");
  if (found.length > MAX_FIELDS + 1) throw new Refused("head_too_large");
  return found;
}

function parseField(line: string): HeaderField {
  const colon = line.indexOf(":");
  const name = line.slice(0, colon);
  // A lone CR or LF, a continuation line and a space before the colon all fail one of these.
  if (colon < 1 || !TOKEN.test(name) || !VALUE.test(line.slice(colon + 1))) throw new Refused("malformed");
  return { name, key: name.toLowerCase(), value: line.slice(colon + 1).replace(/^[ \t]+|[ \t]+$/g, "") };
}

export function valuesOf(fields: HeaderField[], key: string): string[] {
  return fields.filter((field) => field.key === key).map((field) => field.value);
}

function listOf(fields: HeaderField[], key: string): string[] {
  return valuesOf(fields, key).flatMap((value) => value.toLowerCase().split(",")).map((item) => item.trim());
}

export function wantsClose({ fields, minor }: { fields: HeaderField[]; minor: 0 | 1 }): boolean {
  return minor === 0 || listOf(fields, "connection").includes("close") ||
    listOf(fields, "proxy-connection").includes("close");
}

/** How a request's body is framed. Throws {@linkcode Refused} `smuggling` where two parsers could differ. */
export function requestFraming({ fields, minor }: RequestHead): Framing {
  const framing = declaredFraming(fields, minor);
  if (framing === "ambiguous") throw new Refused("smuggling");
  if (listOf(fields, "connection").some((name) => NEVER_NOMINATED.has(name))) throw new Refused("smuggling");
  return framing ?? { by: "none" };
}

/** How a response's body is framed. Throws {@linkcode Refused} `upstream_malformed`. */
export function responseFraming({ status, fields, minor }: ResponseHead, method: string): Framing {
  const framing = declaredFraming(fields, minor);
  if (framing === "ambiguous") throw new Refused("upstream_malformed");
  if (method === "HEAD" || status === 204 || status === 304) return { by: "none" };
  return framing ?? { by: "close" };
}

function declaredFraming(fields: HeaderField[], minor: 0 | 1): Framing | undefined | "ambiguous" {
  const lengths = valuesOf(fields, "content-length");
  const codings = valuesOf(fields, "transfer-encoding");
  if (codings.length > 0) {
    const plain = codings.length === 1 && codings[0]!.toLowerCase() === "chunked";
    return plain && lengths.length === 0 && minor === 1 ? { by: "chunks" } : "ambiguous";
  }
  if (lengths.length === 0) return undefined;
  if (lengths.length > 1 || !/^\d{1,15}$/.test(lengths[0]!)) return "ambiguous";
  return { by: "length", bytes: Number(lengths[0]) };
}

export function endToEnd(fields: HeaderField[]): HeaderField[] {
  const nominated = new Set(listOf(fields, "connection"));
  return fields.filter(({ key }) => !HOP_BY_HOP.has(key) && (!nominated.has(key) || NEVER_NOMINATED.has(key)));
}

export function encodeHead(first_line: string, fields: { name: string; value: string }[]): Uint8Array {
  const text = `${first_line}\r\n${fields.map(({ name, value }) => `${name}: ${value}\r\n`).join("")}\r\n`;
  return Uint8Array.from(text, (char) => char.charCodeAt(0));
}
