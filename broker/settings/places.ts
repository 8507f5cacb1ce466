/**
 * Kinds of settings that name a place: paths, addresses, URLs, images.
 *
 * @module
 */

import { classifyAddress, parseAddress } from "../egress/classify.ts";
import { canonicalHost } from "../egress/host_name.ts";
import { asText, type Kind, refuse, text } from "./kinds.ts";
import type { Node } from "./nodes.ts";

/** The longest path: Linux allows 4096 bytes with the final NUL. */
const MAX_PATH_BYTES = 4095;
/** The longest path of a unix socket: macOS allows 104 bytes with the final NUL, Linux 108. */
const MAX_SOCKET_BYTES = 103;

/** An absolute path; `~/` at its start is the home directory, and `$TMPDIR` and `$UID` stand for what they are. */
function path(type: string, max_bytes: number): Kind<string> {
  const rule = "must be an absolute path, or one that begins with ~/";
  return {
    type,
    read(node, { home, temporary, uid }) {
      const expanded = asText(node, rule).replace(/^~(?=\/)/, () => home).replace(/^\$TMPDIR(?=\/)/, () => temporary)
        .replaceAll("$UID", String(uid));
      if (!expanded.startsWith("/") || expanded.split("/").includes("..")) refuse(node, `${rule}, without ..`);
      if (new TextEncoder().encode(expanded).length > max_bytes) {
        refuse(node, `must have at most ${max_bytes} bytes when it is written out`);
      }
      return expanded.replaceAll(/\/{2,}/g, "/").replace(/(?<=.)\/$/, "");
    },
    show: (value) => value,
  };
}

/** A directory or file. */
export const PATH: Kind<string> = path("path", MAX_PATH_BYTES);
/** A unix socket. */
export const SOCKET_PATH: Kind<string> = path(`path, at most ${MAX_SOCKET_BYTES} bytes`, MAX_SOCKET_BYTES);

/** Address that a listener binds; never one that stands for all addresses. */
export const BIND_ADDRESS: Kind<string> = {
  type: "IP address",
  read(node) {
    const rule = "must be the IP address of one interface";
    const value = asText(node, rule);
    if (parseAddress(value) === undefined) refuse(node, rule);
    if (["unspecified", "multicast", "broadcast"].includes(classifyAddress(value))) {
      refuse(node, rule, {
        hint: "The gateway is for sandboxes alone: an address for everybody would show it to the network",
      });
    }
    return value;
  },
  show: (value) => value,
};

/** `host:port` of a listener, or empty. */
export const LISTEN_ADDRESS: Kind<string> = {
  type: "`host:port`, or empty",
  read(node) {
    const rule = "must be host:port, such as 127.0.0.1:7070";
    const value = asText(node, rule);
    if (value === "") return value;
    const [, host, digits] = /^(\[[0-9a-fA-F:.]+\]|[^:\[\]]+):(\d{1,5})$/.exec(value) ?? [];
    if (host === undefined || Number(digits) > 65_535) refuse(node, rule);
    const address = host.replace(/^\[|\]$/g, "");
    const isHost = parseAddress(address) !== undefined || typeof canonicalHost(host) !== "string";
    if (!isHost || host.startsWith("[") !== address.includes(":")) refuse(node, rule);
    return value;
  },
  show: (value) => value,
};

/** An image of the container runtime. */
export const IMAGE: Kind<string> = text({
  type: "image name",
  rule: "must be the name of an image, such as name:tag",
  pattern: /^[a-zA-Z0-9][a-zA-Z0-9._:/@-]{0,254}$/,
});

/** A network of the container runtime. */
export const NETWORK: Kind<string> = text({
  type: "name",
  rule: "must be a network's name: at most 64 of A-Z a-z 0-9 . _ -, the first a letter or digit",
  pattern: /^[a-zA-Z0-9][a-zA-Z0-9_.-]{0,63}$/,
});

/** An OCI runtime by name or path, or empty. */
export const OCI_RUNTIME: Kind<string> = text({
  type: "name or absolute path, or empty",
  rule: "must be an OCI runtime's name or absolute path, such as runsc",
  pattern: /^(?:\/?[a-zA-Z0-9][a-zA-Z0-9_.+/-]{0,254})?$/,
});

const LOCAL_HOSTS = new Set(["localhost", "127.0.0.1", "[::1]"]);

/** The rule that every endpoint keeps. */
const URL_RULE = "must be an https URL, or an http one of localhost";

/** Parses an endpoint's address; what may hold a secret is not shown. */
function readUrl(node: Node, value: string): URL {
  const url = URL.parse(value);
  if (url === null) refuse(node, URL_RULE, { secret: value.includes("@") });
  if (url.username !== "" || url.password !== "" || url.search !== "" || url.hash !== "") {
    refuse(node, "must be a URL without credentials, query and fragment", { secret: true });
  }
  const isLocal = url.protocol === "http:" && LOCAL_HOSTS.has(url.hostname);
  if (url.protocol !== "https:" && !isLocal) refuse(node, URL_RULE);
  return url;
}

/** Where a vendor's API is. */
export const UPSTREAM_URL: Kind<string> = {
  type: "URL",
  read(node) {
    return readUrl(node, asText(node, URL_RULE)).href.replace(/\/+$/, "");
  },
  show: (value) => value,
};

/** Where the endpoint of `compat` is; empty where there is none. */
export const ENDPOINT_URL: Kind<string> = {
  type: "URL, or empty",
  read(node) {
    const value = asText(node, URL_RULE);
    if (value === "") return value;
    const url = readUrl(node, value);
    if (url.pathname !== "/") {
      refuse(node, "must be a URL without a path", {
        hint: `Write base_url: ${url.origin} and base_path: ${url.pathname.replace(/\/+$/, "")}`,
      });
    }
    return url.origin;
  },
  show: (value) => value,
};

/** The path that goes before a request's own; `/` for an endpoint that has none. */
export const ENDPOINT_PATH: Kind<string> = text({
  type: "path, or empty",
  rule: "must be a path of plain segments that begins with /, such as /v1, or / alone",
  pattern: /^(?:\/|(?:\/(?!\.{1,2}(?:\/|$))[A-Za-z0-9._~-]+){1,16}\/?)?$/,
});

/** The name of a variable of the environment, or empty. */
export const VARIABLE_NAME: Kind<string> = text({
  type: "name of a variable, or empty",
  rule: "must be the name of an environment variable, in capitals, and not the key itself",
  pattern: /^(?:[A-Z_][A-Z0-9_]{0,63})?$/,
  hint: "Write the variable's name here, and the key into the environment or ~/.taskd/api-keys.env",
  secret: true,
});
