/**
 * The operator's web pages, as answers to `GET /ui/...`: one shell, one style sheet, and the modules of `pages/`, which a
 * browser loads as they are, without their types.
 *
 * Everything here is public and the same for every user: what a page shows it asks the API for, with a token that only the
 * browser holds. The policy that goes with each answer lets a page load its own files and speak to its own origin, and
 * nothing else; markup from strings is forbidden to scripts altogether.
 */

import { stripTypeScriptTypes } from "node:module";
import { MODULES, SHELL, STYLE } from "./_assets.ts";

export const CONTENT_SECURITY_POLICY: string = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "connect-src 'self'",
  "img-src 'self' data:",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join("; ");

const HEADERS: Readonly<Record<string, string>> = {
  "content-security-policy": CONTENT_SECURITY_POLICY,
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
  // A broker that was replaced has other pages; they are small, and come from this machine.
  "cache-control": "no-store",
};

/** Paths that the shell answers: which page it is, its script finds out. */
const PAGE = /^\/ui\/(?:|history|tasks\/[0-9a-f]{1,32})$/;
const MODULE = /^\/ui\/pages\/([a-z_]+)\.ts$/;

const stripped = new Map<string, string>();

/**
 * Answers a `GET` of one of the pages or of what they consist of.
 *
 * @param path The path of the request's URL, without its query.
 * @returns Undefined when nothing is there.
 */
export function webResponse(path: string): Response | undefined {
  if (path === "/ui") return new Response(null, { status: 308, headers: { ...HEADERS, location: "/ui/" } });
  if (PAGE.test(path)) return answer("text/html", SHELL);
  if (path === "/ui/style.css") return answer("text/css", STYLE);
  const name = MODULE.exec(path)?.[1];
  const source = name === undefined ? undefined : MODULES.get(name);
  return name === undefined || source === undefined ? undefined : answer("text/javascript", script(name, source));
}

function answer(type: string, body: string): Response {
  return new Response(body, { headers: { ...HEADERS, "content-type": `${type}; charset=utf-8` } });
}

/** A module without its types: they are replaced by spaces, so that lines and columns stay. */
function script(name: string, source: string): string {
  const known = stripped.get(name);
  if (known !== undefined) return known;
  // What pages share with the rest of the program lies beside them here.
  const text = stripTypeScriptTypes(source).replaceAll(
    /"(?:\.\.\/)+(?:(?:lib\/text|lib\/http|lib\/merge|task)\/)?/g,
    '"./',
  );
  stripped.set(name, text);
  return text;
}
