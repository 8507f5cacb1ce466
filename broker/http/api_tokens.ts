/**
 * Who may use `broker.api_addr`: bearer tokens of a role, which the unix socket alone makes, lists and revokes.
 *
 * - Of a token the SHA-256 is kept. It has 32 random bytes, which are not found by trying: the salt and the slow hash that
 *   passwords get, because people choose those, would add nothing.
 * - The file is its owner's alone, has a checksum and is replaced as a whole. A change is on the disk before it is
 *   acknowledged, and counts for the next request.
 * - A token ends at its time by the wall clock, and when it is revoked. Its streams end with it: at once when it is
 *   revoked, within {@linkcode CHECK_MS} when its time is over.
 * - The number of tokens is bounded; those whose time is over make room.
 */

import * as v from "valibot";
import { type Clock, type RandomBytes, randomHex } from "../../lib/clock.ts";
import { TaskdError } from "../../lib/errors.ts";
import { writeFileAtomic } from "../../lib/fs.ts";
import { bearerOf, FINGERPRINT_CHARS } from "../../lib/http/bearer.ts";
import { KeyedMutex } from "../../lib/keyed_mutex.ts";
import { parseSealedJson, sealJson } from "../../lib/sealed_json.ts";
import { sha256Hex } from "../../lib/sha256.ts";
import { API_ROLE, API_TOKEN_NAME, type ApiRole, type ApiTokenView, type CreateTokenRequest } from "../api/wire.ts";
import { readPrivateFile } from "../settings/private_file.ts";
import { SHA256, TIME } from "../task/value_schemas.ts";

/** Tokens at one time, the expired ones included until another is made. */
export const MAX_API_TOKENS = 64;
/** Between two looks for expired tokens while streams are open; each request looks for itself. */
export const CHECK_MS = 60_000;
/** Random bytes of a token. */
const SECRET_BYTES = 32;
/** What a token begins with, by which scanners for secrets find it. */
const PREFIX = "taskd_";

const KEPT_TOKEN = v.strictObject({
  name: API_TOKEN_NAME,
  role: API_ROLE,
  sha256: SHA256,
  created_at: TIME,
  expires_at: TIME,
});
type KeptToken = v.InferOutput<typeof KEPT_TOKEN>;

const TOKENS_FILE = v.strictObject({
  v: v.literal(1),
  tokens: v.pipe(v.array(KEPT_TOKEN), v.maxLength(MAX_API_TOKENS)),
});

/** A token, while the broker runs. */
export class ApiToken {
  readonly kept: KeptToken;
  readonly #tokens: ApiTokens;
  readonly #ending = new AbortController();

  constructor(kept: KeptToken, tokens: ApiTokens) {
    this.kept = kept;
    this.#tokens = tokens;
  }

  get role(): ApiRole {
    return this.kept.role;
  }

  /** Its name with the fingerprint, by which it differs from an earlier one of that name. */
  get shown(): string {
    return `${this.kept.name} (${fingerprintOf(this.kept)})`;
  }

  /** Aborted when it ends. */
  get ended(): AbortSignal {
    return this.#ending.signal;
  }

  /** A stream is open until the returned function is called. */
  hold(): () => void {
    return this.#tokens.holdStream();
  }

  end(): void {
    this.#ending.abort();
  }
}

export interface ApiTokensOptions {
  /** Absolute path of the file; it need not exist. */
  path: string;
  clock: Clock;
  random: RandomBytes;
}

export class ApiTokens {
  readonly #options: ApiTokensOptions;
  readonly #changes = new KeyedMutex();
  readonly #closing = new AbortController();
  /** By the SHA-256 of the token: how far a guess agrees with one says nothing of the token. */
  #tokens: ReadonlyMap<string, ApiToken>;
  #streams = 0;
  #checking = false;

  private constructor(options: ApiTokensOptions, kept: readonly KeptToken[]) {
    this.#options = options;
    this.#tokens = new Map(kept.map((one) => [one.sha256, new ApiToken(one, this)]));
  }

  /** @throws {TaskdError} as {@linkcode readApiTokens}. */
  static async open(options: ApiTokensOptions): Promise<ApiTokens> {
    return new ApiTokens(options, await readApiTokens(options.path));
  }

  /** The token that an Authorization header presents; undefined for one that is wrong, expired or revoked. */
  enter(authorization: string | null): ApiToken | undefined {
    const token = this.#tokens.get(sha256Hex(bearerOf(authorization) ?? ""));
    if (token === undefined || !this.#isOver(token)) return token;
    token.end();
    return undefined;
  }

  /** The oldest first. */
  list(): ApiTokenView[] {
    return [...this.#tokens.values()].map((token) => this.#view(token));
  }

  /**
   * Makes a token; it is on the disk when this resolves.
   *
   * @throws {TaskdError} `already_exists`; `wrong_state` when there are {@linkcode MAX_API_TOKENS}; `denied`, `no_space` or
   * `unavailable` for the file.
   */
  create({ role, ttl_ms, name }: CreateTokenRequest): Promise<ApiTokenView & { token: string }> {
    return this.#change(async () => {
      const { clock, random } = this.#options;
      const others = [...this.#tokens.values()].filter((token) => !this.#isOver(token));
      const named = name ?? `${role}-${randomHex(random, 4)}`;
      if (others.some(({ kept }) => kept.name === named)) {
        throw new TaskdError("already_exists", `Cannot create the token: there is one of the name ${named}`, {
          hint: `Choose another name, or revoke it: taskd token revoke ${named}`,
        });
      }
      if (others.length >= MAX_API_TOKENS) {
        throw new TaskdError("wrong_state", `Cannot create the token: there are ${MAX_API_TOKENS} already`, {
          hint: "Revoke one that is not used any more: taskd token list",
        });
      }
      const secret = PREFIX + randomHex(random, SECRET_BYTES);
      const now_ms = clock.now();
      const made = new ApiToken({
        name: named,
        role,
        sha256: sha256Hex(secret),
        created_at: new Date(now_ms).toISOString(),
        expires_at: new Date(now_ms + ttl_ms).toISOString(),
      }, this);
      await this.#replace([...others, made]);
      return { ...this.#view(made), token: secret };
    });
  }

  /** Ends a token, once that is on the disk; throws `not_found`, and for the file as {@linkcode ApiTokens.create}. */
  revoke(name: string): Promise<void> {
    return this.#change(async () => {
      const all = [...this.#tokens.values()];
      const revoked = all.find(({ kept }) => kept.name === name);
      if (revoked === undefined) {
        throw new TaskdError("not_found", `Cannot revoke the token: there is none of the name ${name}`, {
          hint: "taskd token list",
        });
      }
      await this.#replace(all.filter((token) => token !== revoked));
    });
  }

  /** Ends every stream. */
  close(): void {
    this.#closing.abort();
    for (const token of this.#tokens.values()) token.end();
  }

  holdStream(): () => void {
    this.#streams++;
    if (!this.#checking) void this.#check();
    return () => void this.#streams--;
  }

  /** One change at a time: each writes the whole file. */
  #change<T>(work: () => Promise<T>): Promise<T> {
    return this.#changes.run(["file"], work);
  }

  async #replace(tokens: readonly ApiToken[]): Promise<void> {
    const file: v.InferOutput<typeof TOKENS_FILE> = { v: 1, tokens: tokens.map(({ kept }) => kept) };
    const bytes = new TextEncoder().encode(`${sealJson(JSON.stringify(file))}\n`);
    await writeFileAtomic(this.#options.path, bytes, 0o600);
    const before = this.#tokens;
    this.#tokens = new Map(tokens.map((token) => [token.kept.sha256, token]));
    for (const [sha256, token] of before) if (!this.#tokens.has(sha256)) token.end();
  }

  #view(token: ApiToken): ApiTokenView {
    const { name, role, created_at, expires_at } = token.kept;
    return { name, role, fingerprint: fingerprintOf(token.kept), created_at, expires_at, expired: this.#isOver(token) };
  }

  #isOver({ kept }: ApiToken): boolean {
    return this.#options.clock.now() >= Date.parse(kept.expires_at);
  }

  /** Ends those whose time is over: their streams would go on. */
  async #check(): Promise<void> {
    this.#checking = true;
    try {
      while (this.#streams > 0) {
        await this.#options.clock.sleep(CHECK_MS, this.#closing.signal);
        for (const token of this.#tokens.values()) if (this.#isOver(token)) token.end();
      }
    } catch (error) {
      if (!this.#closing.signal.aborted) throw error;
    } finally {
      this.#checking = false;
    }
  }
}

/** Names a token without giving it away: the first hex digits of its SHA-256. */
function fingerprintOf({ sha256 }: KeptToken): string {
  return sha256.slice(0, FINGERPRINT_CHARS);
}

/**
 * The tokens of a file; none where there is no file.
 *
 * @throws {TaskdError} `denied` when others can read it; `invalid_config` when it is damaged: who may come in is not known
 * then, and no one is let in.
 */
export async function readApiTokens(path: string): Promise<readonly KeptToken[]> {
  // Twice: a bit may flip in a read.
  for (let reads = 0; reads < 2; reads++) {
    const text = await readPrivateFile(path, "secret");
    if (text === undefined) return [];
    const parsed = v.safeParse(TOKENS_FILE, parseSealedJson(text));
    if (parsed.success) return parsed.output.tokens;
  }
  throw new TaskdError("invalid_config", `Cannot use ${path}: it is damaged`, {
    hint: "Remove it, start the broker and make the tokens anew with taskd token create",
  });
}
