/**
 * A vendor's subscription: the OAuth credential in `~/.taskd/vendor_a-oauth.json` or
 * `vendor_b-oauth.json` (0600), and its renewal.
 *
 * Vendors rotate the refresh token: a renewal begins only with disk space for the new one, a renewed credential is on
 * the disk before it is used, one renewal runs at a time, and a credential that another program has written is never
 * overwritten. No error contains a token.
 */

import * as v from "valibot";
import { type Clock, systemClock } from "../../lib/clock.ts";
import { TaskdError } from "../../lib/errors.ts";
import { removeIfPresent, writeFileAtomic } from "../../lib/fs.ts";
import { taskdHome } from "./load.ts";
import { isSecureUrl } from "./path_and_url_schemas.ts";
import { readPrivateFile } from "./private_file.ts";
import { parseJson } from "../../lib/text/json.ts";
import { readText } from "../../lib/http/body.ts";

/** Lanes whose vendor can be paid by subscription; vendor_c has none. */
export type SubscriptionLane = "vendor_a" | "vendor_b";

interface VendorOAuth {
  token_url: string;
  /** Id of the vendor's own command-line client, which the subscription was given to. */
  client_id: string;
  headers: (account_id: string | undefined) => Record<string, string>;
  program: string;
}

/** As the vendors' own open clients have them; a credential file can name others. */
const VENDORS: Readonly<Record<SubscriptionLane, VendorOAuth>> = {
  vendor_a: {
    token_url: "https://console.anthropic.com/v1/oauth/token",
    client_id: "9d1c250a-e61b-44d9-88ed-5944d1962f5e",
    headers: () => ({ "anthropic-beta": "oauth-2025-04-20" }),
    program: "claude",
  },
  vendor_b: {
    token_url: "https://auth.openai.com/oauth/token",
    client_id: "app_EMoamEEZ73f0CkXaXp7hrann",
    headers: (account_id) => account_id === undefined ? {} : { "chatgpt-account-id": account_id },
    program: "codex",
  },
};

const TOKEN = v.pipe(v.string(), v.regex(/^[\x21-\x7e]{1,16384}$/));
const STAMP = v.pipe(v.string(), v.check((text) => !Number.isNaN(Date.parse(text))));

/** The credential file. Unknown fields are kept. */
const FILE = v.looseObject({
  access_token: TOKEN,
  refresh_token: v.optional(TOKEN),
  /** ISO 8601; without it the token is used until the vendor refuses it. */
  expires_at: v.optional(STAMP),
  account_id: v.optional(v.pipe(v.string(), v.regex(/^[\x21-\x7e]{1,256}$/))),
  token_url: v.optional(v.string()),
  client_id: v.optional(v.pipe(v.string(), v.regex(/^[\x21-\x7e]{1,256}$/))),
});

const ANSWER = v.looseObject({
  access_token: TOKEN,
  refresh_token: v.optional(TOKEN),
  expires_in: v.optional(v.pipe(v.number(), v.minValue(0), v.maxValue(10 * 365 * 86_400))),
});

export type OAuthCredential = v.InferOutput<typeof FILE>;

export interface Bearer {
  /** Never to be logged. */
  secret: string;
  headers: Readonly<Record<string, string>>;
}

export type Fetch = (url: string, init: RequestInit) => Promise<Response>;

export interface SubscriptionOptions {
  home: string;
  fetch?: Fetch;
  clock?: Clock;
}

/** A token is renewed this long before it expires: longer than a request takes to reach its vendor. */
const MARGIN_MS = 120_000;
const RENEWAL_MS = 30_000;
const MAX_ANSWER_BYTES = 262_144;
/** Reserved for a renewed credential: two tokens of the greatest length and the other fields. */
const ROOM_BYTES = 65_536;

/** The tokens that replace those of `of`, which may be invalid by now. */
interface Renewed {
  of: OAuthCredential;
  tokens: Pick<OAuthCredential, "access_token" | "refresh_token" | "expires_at">;
}

export class VendorSubscription {
  readonly #vendor: VendorOAuth;
  readonly #path: string;
  readonly #fetch: Fetch;
  readonly #clock: Clock;
  /** Not written yet: the only copy of a rotated token. */
  #unsaved: Renewed | undefined;
  #saving: Promise<OAuthCredential> | undefined;
  #renewal: Promise<OAuthCredential> | undefined;

  constructor(lane: SubscriptionLane, options: SubscriptionOptions) {
    this.#vendor = VENDORS[lane];
    this.#path = oauthPath(options.home, lane);
    this.#fetch = options.fetch ?? fetch;
    this.#clock = options.clock ?? systemClock;
  }

  /**
   * The bearer at present, renewed when it has expired or is about to.
   *
   * @throws {TaskdError} `not_found` without a file, `denied` when others can read it, `invalid_config` for an
   * invalid file, `unavailable` when it cannot be renewed.
   */
  async current(): Promise<Bearer> {
    const credential = await this.#load();
    return this.#bearer(this.#isFresh(credential) ? credential : await this.#renewOnce(credential));
  }

  /** Another bearer than `rejected`, which the vendor refused; throws like {@linkcode current}. */
  async renew(rejected: { secret: string }): Promise<Bearer> {
    const credential = await this.#load();
    const isOther = credential.access_token !== rejected.secret;
    return this.#bearer(isOther && this.#isFresh(credential) ? credential : await this.#renewOnce(credential));
  }

  #isFresh({ expires_at }: OAuthCredential): boolean {
    return expires_at === undefined || Date.parse(expires_at) - this.#clock.now() > MARGIN_MS;
  }

  #bearer({ access_token, account_id }: OAuthCredential): Bearer {
    return { secret: access_token, headers: this.#vendor.headers(account_id) };
  }

  /** From the file each time: a new sign-in or a renewal by another process changes it. */
  async #load(): Promise<OAuthCredential> {
    if (this.#unsaved) return await this.#saveOnce(this.#unsaved);
    return await this.#read();
  }

  #read(): Promise<OAuthCredential> {
    return readOAuthFile(this.#path, this.#vendor.program);
  }

  #renewOnce(credential: OAuthCredential): Promise<OAuthCredential> {
    return this.#renewal ??= this.#renewNow(credential).finally(() => this.#renewal = undefined);
  }

  async #renewNow(stale: OAuthCredential): Promise<OAuthCredential> {
    // Another renewal may have ended meanwhile and spent the stale refresh token.
    const credential = await this.#load();
    if (credential.access_token !== stale.access_token && this.#isFresh(credential)) return credential;
    const { refresh_token } = credential;
    if (refresh_token === undefined) throw this.#failure("it has expired and has no refresh token");
    const answer = await this.#withRoom(() => this.#ask(credential, refresh_token));
    const now = this.#clock.now();
    return await this.#saveOnce({
      of: credential,
      tokens: {
        access_token: answer.access_token,
        refresh_token: answer.refresh_token ?? refresh_token,
        ...(answer.expires_in === undefined
          ? {}
          : { expires_at: new Date(now + answer.expires_in * 1_000).toISOString() }),
      },
    });
  }

  /** Renews only while the result can be written: the old refresh token is spent by then. */
  async #withRoom<T>(ask: () => Promise<T>): Promise<T> {
    const room = `${this.#path}.room`;
    await writeFileAtomic(room, new Uint8Array(ROOM_BYTES), 0o600);
    try {
      return await ask();
    } finally {
      removeIfPresent(room);
    }
  }

  async #ask(credential: OAuthCredential, refresh_token: string): Promise<v.InferOutput<typeof ANSWER>> {
    const { token_url, client_id } = this.#vendor;
    let text: string;
    try {
      const response = await this.#fetch(checkTokenUrl(credential.token_url ?? token_url, this.#path), {
        method: "POST",
        headers: { "content-type": "application/json", accept: "application/json" },
        body: JSON.stringify({
          grant_type: "refresh_token",
          refresh_token,
          client_id: credential.client_id ?? client_id,
        }),
        // A refresh token goes to its address and follows no redirect.
        redirect: "error",
        signal: AbortSignal.timeout(RENEWAL_MS),
      });
      const answer = await readText(response, MAX_ANSWER_BYTES);
      if (answer === undefined) {
        throw new TaskdError("too_large", "Cannot renew a subscription: the vendor's answer is too large");
      }
      text = answer;
      if (!response.ok) throw this.#failure(`the vendor answered ${response.status}`);
    } catch (error) {
      // The cause is left out: it may quote what was sent.
      throw error instanceof TaskdError ? error : this.#failure("the vendor cannot be reached");
    }
    const parsed = v.safeParse(ANSWER, parseJson(text));
    if (!parsed.success) throw this.#failure("the vendor's answer is not understood");
    return parsed.output;
  }

  #saveOnce(renewed: Renewed): Promise<OAuthCredential> {
    this.#unsaved = renewed;
    return this.#saving ??= this.#save(renewed).finally(() => this.#saving = undefined);
  }

  /** Writes the tokens to the file, unless it has others by now: those count then. */
  async #save({ of, tokens }: Renewed): Promise<OAuthCredential> {
    const found = await this.#read();
    let credential = found;
    if (found.access_token === of.access_token && found.refresh_token === of.refresh_token) {
      const { expires_at: _expired, ...kept } = found;
      credential = { ...kept, ...tokens };
      await writeFileAtomic(this.#path, new TextEncoder().encode(`${JSON.stringify(credential, null, 2)}\n`), 0o600);
    }
    this.#unsaved = undefined;
    return credential;
  }

  #failure(why: string): TaskdError {
    return new TaskdError("unavailable", `Cannot renew the subscription of ${this.#path}: ${why}`, {
      hint: `Sign in again with ${this.#vendor.program} and write the new credential into the file`,
    });
  }
}

export function oauthPath(home: string, lane: SubscriptionLane): string {
  return `${taskdHome(home)}/${lane}-oauth.json`;
}

/** A lane's credential as it is in the file, however old; throws like {@linkcode VendorSubscription.current}, renews nothing. */
export function readCredential(home: string, lane: SubscriptionLane): Promise<OAuthCredential> {
  return readOAuthFile(oauthPath(home, lane), VENDORS[lane].program);
}

async function readOAuthFile(path: string, program: string): Promise<OAuthCredential> {
  const attempted = `Cannot use the subscription of ${path}`;
  const text = await readPrivateFile(path, "secret");
  if (text === undefined) {
    throw new TaskdError("not_found", `${attempted}: there is no such file`, {
      hint: `Sign in with ${program} and write its tokens there, or set the vendor to api_key`,
    });
  }
  const parsed = v.safeParse(FILE, parseJson(text));
  if (parsed.success) return parsed.output;
  const field = v.getDotPath(parsed.issues[0]) ?? "the file";
  throw new TaskdError("invalid_config", `${attempted}: ${field} is missing or malformed`, {
    hint: 'It holds {"access_token", "refresh_token", "expires_at"}',
  });
}

function checkTokenUrl(text: string, path: string): string {
  const url = URL.parse(text);
  if (url && isSecureUrl(url) && url.username === "") return url.href;
  throw new TaskdError("invalid_config", `Cannot use the subscription of ${path}: token_url is not an https URL`);
}
