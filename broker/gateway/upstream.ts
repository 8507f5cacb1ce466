/**
 * The way to a vendor's API: where it is, which credential it takes and one request to
 * it. The credential is put in here and nowhere else.
 */

import { Agent as HttpAgent, type ClientRequest, type IncomingMessage, request as httpRequest } from "node:http";
import { Agent as HttpsAgent, request as httpsRequest } from "node:https";
import { TaskdError } from "../../lib/errors.ts";
import { type Lane, laneText } from "../agents.ts";
import { type HeaderMap, requestHeaders } from "./headers.ts";
import type { AuthMode } from "./lease.ts";
import { Redactor, SecretForms } from "./redact.ts";
import { Refusal } from "./refusal.ts";
import { type MatchedRoute, upstreamPath } from "./routes.ts";

export interface Credential {
  secret: string;
  /** Headers that the vendor requires beside it, such as an account id; `anthropic-beta` is added to the client's. */
  headers?: Readonly<Record<string, string>>;
}

export interface TokenSource {
  current(): Promise<Credential>;
  /** A new one, after the vendor refused `rejected`. Called once per request at most. */
  renew(rejected: Credential): Promise<Credential>;
}

export interface UpstreamOptions {
  /** `https://host`, or `http://` for a self-hosted server; a path in it goes before the request's. */
  base_url: string;
  /** Takes the place of `/v1`, where an endpoint has another prefix, or `/` for none. */
  base_path?: string;
  /** For leases that pay with a key. Empty for an endpoint that needs none. */
  api_key?: string;
  /** PEM certificates to trust in place of the public ones, for a self-hosted server. */
  ca?: string;
  /** For leases that use a subscription; it may have an address and a prefix of its own. */
  subscription?: { source: TokenSource; base_url?: string; base_path?: string };
}

/** Idle time after which a kept connection is closed, before the vendor's side does it in mid-request. */
const IDLE_CONNECTION_MS = 4_000;
const MAX_IDLE_CONNECTIONS = 64;

export class Upstream {
  readonly #lane: Lane;
  readonly #options: UpstreamOptions;
  readonly #url: URL;
  readonly #subscription_url: URL;
  readonly #agents = {
    "http:": new HttpAgent({ keepAlive: true, maxFreeSockets: MAX_IDLE_CONNECTIONS, timeout: IDLE_CONNECTION_MS }),
    "https:": new HttpsAgent({ keepAlive: true, maxFreeSockets: MAX_IDLE_CONNECTIONS, timeout: IDLE_CONNECTION_MS }),
  };

  #forms: { secret: string; forms: SecretForms } | undefined;

  constructor(lane: Lane, options: UpstreamOptions) {
    this.#lane = lane;
    this.#options = options;
    this.#url = baseUrl(lane, options.base_url);
    const own = options.subscription?.base_url;
    this.#subscription_url = own === undefined ? this.#url : baseUrl(lane, own);
  }

  serves(auth: AuthMode): boolean {
    return auth === "api_key" ? this.#options.api_key !== undefined : this.#options.subscription !== undefined;
  }

  async credential(auth: AuthMode): Promise<Credential> {
    if (auth === "api_key") return { secret: this.#options.api_key ?? "" };
    return await this.#renewal((source) => source.current());
  }

  renewed(rejected: Credential): Promise<Credential> {
    return this.#renewal((source) => source.renew(rejected));
  }

  /** What keeps a credential out of one answer. */
  redactor({ secret }: Credential): Redactor {
    if (this.#forms?.secret !== secret) this.#forms = { secret, forms: new SecretForms([secret]) };
    return new Redactor(this.#forms.forms);
  }

  send(route: MatchedRoute, options: SendOptions): ClientRequest {
    const subscribed = options.auth === "subscription";
    const url = subscribed ? this.#subscription_url : this.#url;
    const { base_path = "" } = (subscribed ? this.#options.subscription : undefined) ?? this.#options;
    const secure = url.protocol === "https:";
    const { body } = options;
    const outgoing = (secure ? httpsRequest : httpRequest)({
      agent: this.#agents[secure ? "https:" : "http:"],
      hostname: url.hostname.replace(/^\[|\]$/g, ""),
      port: url.port === "" ? (secure ? 443 : 80) : Number(url.port),
      path: upstreamPath(route, { pathname: url.pathname, base_path }),
      method: route.row.method,
      ...(this.#options.ca === undefined ? {} : { ca: this.#options.ca }),
      headers: {
        ...this.#headers(options),
        host: url.host,
        ...(body ? { "content-type": "application/json", "content-length": String(body.length) } : {}),
      },
    }, options.onResponse);
    // Deno sends a request again, unasked, when a connection that was kept breaks off before the answer; the vendor, who
    // may be at work on the first one, would bill both.
    outgoing.on("socket", () => outgoing.reusedSocket = false);
    outgoing.setNoDelay(true);
    outgoing.end(body);
    return outgoing;
  }

  /** The event of a socket after which the vendor may see a request. */
  readyEvent(auth: AuthMode): "connect" | "secureConnect" {
    const { protocol } = auth === "subscription" ? this.#subscription_url : this.#url;
    return protocol === "https:" ? "secureConnect" : "connect";
  }

  close(): void {
    for (const agent of Object.values(this.#agents)) agent.destroy();
  }

  #headers({ headers, credential, auth }: SendOptions): Record<string, string> {
    const passed = requestHeaders(headers);
    // What the vendor sends is metered as it passes; compressed it could not be read.
    passed["accept-encoding"] = "identity";
    if (credential.secret !== "") {
      const [name, prefix] = auth === "subscription" ? BEARER : KEY_HEADERS[this.#lane];
      passed[name] = `${prefix}${credential.secret}`;
    }
    for (const [name, value] of Object.entries(credential.headers ?? {})) {
      const own = name === "anthropic-beta" ? passed[name] : undefined;
      passed[name] = own === undefined ? value : `${own},${value}`;
    }
    return passed;
  }

  async #renewal(ask: (source: TokenSource) => Promise<Credential>): Promise<Credential> {
    const source = this.#options.subscription?.source;
    try {
      if (source) return await ask(source);
    } catch {
      // Its error may quote the credential.
    }
    throw new Refusal(
      "credential_failed",
      "The subscription's credential cannot be renewed; sign in again on the host",
    );
  }
}

export interface SendOptions {
  headers: HeaderMap;
  body: Uint8Array | undefined;
  credential: Credential;
  auth: AuthMode;
  onResponse: (response: IncomingMessage) => void;
}

const BEARER = ["authorization", "Bearer "] as const;
const KEY_HEADERS: Readonly<Record<Lane, readonly [string, string]>> = {
  vendor_a: ["x-api-key", ""],
  vendor_b: BEARER,
  vendor_c: ["x-goog-api-key", ""],
  compat: BEARER,
};

function baseUrl(lane: Lane, text: string): URL {
  const url = URL.parse(text);
  if (url && /^https?:$/.test(url.protocol) && url.search === "" && url.hash === "" && url.username === "") return url;
  throw new TaskdError(
    "invalid_request",
    `Cannot use the address of ${laneText(lane)}: it is not an http or https URL`,
    {
      hint: "Write it as https://host or https://host/path, without a query and without credentials",
    },
  );
}
