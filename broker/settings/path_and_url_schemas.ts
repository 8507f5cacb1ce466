/**
 * valibot schemas of settings that name a place: paths, addresses, URLs, images.
 */

import * as v from "valibot";
import { classifyAddress, parseAddress } from "../egress/address_class.ts";
import { canonicalHost } from "../egress/host_name.ts";
import { check, list, text, textLike, withHint } from "./value_schemas.ts";
import { MAX_SOCKET_PATH_BYTES, MAX_SOCKET_PATH_BYTES_OF } from "../../lib/socket_path.ts";

/** The longest path: Linux allows 4096 bytes with the final NUL. */
const MAX_PATH_BYTES = 4095;

function path(type: string, max_bytes: number) {
  const rule = "must be an absolute path, or one that begins with ~/";
  return v.pipe(
    text(rule),
    v.check((value) => value.startsWith("/") && !value.split("/").includes(".."), `${rule}, without ..`),
    v.maxBytes(max_bytes, `must have at most ${max_bytes} bytes when it is written out`),
    v.transform((value) => value.replaceAll(/\/{2,}/g, "/").replace(/(?<=.)\/$/, "")),
    v.metadata({ type, is_path: true }),
  );
}

export const PATH = path("path", MAX_PATH_BYTES);
export const PATHS = v.pipe(
  list(PATH, "must be a list of paths", 200),
  v.metadata({ type: "list of paths", is_path: true }),
);
export const SOCKET_PATH = path(
  `path, at most ${MAX_SOCKET_PATH_BYTES_OF.linux} bytes (macOS: ${MAX_SOCKET_PATH_BYTES_OF.darwin})`,
  MAX_SOCKET_PATH_BYTES,
);

const BIND_RULE = "must be the IP address of one interface";

/** Address that a listener binds; never one of every interface. */
export const BIND_ADDRESS = v.pipe(
  text(BIND_RULE),
  v.check((value) => parseAddress(value) !== undefined, BIND_RULE),
  v.check(
    (value) => !["unspecified", "multicast", "broadcast"].includes(classifyAddress(value)),
    withHint(
      BIND_RULE,
      "Only sandboxes may reach the gateway: an address of every interface exposes it to the network",
    ),
  ),
  v.metadata({ type: "IP address" }),
);

const LISTEN_RULE = "must be host:port, such as 127.0.0.1:7070";

export const LISTEN_ADDRESS = v.pipe(
  text(LISTEN_RULE),
  v.check((value) => value === "" || isListenAddress(value), LISTEN_RULE),
  v.metadata({ type: "`host:port`, or empty" }),
);

function isListenAddress(value: string): boolean {
  const [, host, digits] = /^(\[[0-9a-fA-F:.]+\]|[^:\[\]]+):(\d{1,5})$/.exec(value) ?? [];
  if (host === undefined || Number(digits) > 65_535) return false;
  const address = host.replace(/^\[|\]$/g, "");
  const isHost = parseAddress(address) !== undefined || typeof canonicalHost(host) !== "string";
  return isHost && host.startsWith("[") === address.includes(":");
}

export const IMAGE = textLike(/^[a-zA-Z0-9][a-zA-Z0-9._:/@-]{0,254}$/, {
  type: "image name",
  rule: "must be the name of an image, such as name:tag",
});

export const NETWORK = textLike(/^[a-zA-Z0-9][a-zA-Z0-9_.-]{0,63}$/, {
  type: "name",
  rule: "must be a network's name: at most 64 of A-Z a-z 0-9 . _ -, the first a letter or digit",
});

export const OCI_RUNTIME = textLike(/^(?:\/?[a-zA-Z0-9][a-zA-Z0-9_.+/-]{0,254})?$/, {
  type: "name or absolute path, or empty",
  rule: "must be an OCI runtime's name or absolute path, such as runsc",
});

const URL_RULE = "must be an https URL, or an http one of localhost";
const LOCAL_HOSTS = new Set(["localhost", "127.0.0.1", "[::1]"]);

/** Whether what is sent to `url` stays secret: over https, or to this machine. */
export function isSecureUrl(url: URL): boolean {
  return url.protocol === "https:" || url.protocol === "http:" && LOCAL_HOSTS.has(url.hostname);
}

function urlFault(value: string): string | undefined {
  const url = URL.parse(value);
  if (url === null) return URL_RULE;
  if (url.username !== "" || url.password !== "" || url.search !== "" || url.hash !== "") {
    return "must be a URL without credentials, query and fragment";
  }
  return isSecureUrl(url) ? undefined : URL_RULE;
}

export const UPSTREAM_URL = v.pipe(
  text(URL_RULE),
  check(urlFault),
  v.transform((value) => new URL(value).href.replace(/\/+$/, "")),
  v.metadata({ type: "URL" }),
);

export const ENDPOINT_URL = v.pipe(
  text(URL_RULE),
  check((value) => value === "" ? undefined : urlFault(value) ?? pathFault(new URL(value))),
  v.transform((value) => value === "" ? value : new URL(value).origin),
  v.metadata({ type: "URL, or empty" }),
);

function pathFault({ origin, pathname }: URL): string | undefined {
  if (pathname === "/") return undefined;
  const hint = `Write base_url: ${origin} and base_path: ${pathname.replace(/\/+$/, "")}`;
  return withHint("must be a URL without a path", hint);
}

/** The prefix of a request's path; `/` for none. */
export const ENDPOINT_PATH = textLike(/^(?:\/|(?:\/(?!\.{1,2}(?:\/|$))[A-Za-z0-9._~-]+){1,16}\/?)?$/, {
  type: "path, or empty",
  rule: "must be a path of plain segments that begins with /, such as /v1, or / alone",
});

export const VARIABLE_NAME = textLike(/^(?:[A-Z_][A-Z0-9_]{0,63})?$/, {
  type: "name of a variable, or empty",
  rule: "must be the name of an environment variable, in capitals, and not the key itself",
  hint: "Write the variable's name here, and the key into the environment or ~/.taskd/api-keys.env",
});
