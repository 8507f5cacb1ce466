/**
 * The vendors' API keys, and the token of the metrics: from the environment, or from `~/.taskd/api-keys.env` (0600).
 *
 * They stay on the host. No error contains a key, and a source names only where a key was found.
 */

import { TaskdError } from "../../lib/errors.ts";
import { writeFileAtomic } from "../../lib/fs.ts";
import type { Lane } from "../agents.ts";
import { changeEnvFile, parseEnvFile } from "./env_file.ts";
import { taskdHome } from "./load.ts";
import { readPrivateFile } from "./private_file.ts";
import type { Settings } from "./settings.ts";

/** Variables of each vendor's key in order of precedence: the contract's name, then the one of the vendor's tools. */
export const KEY_VARIABLES: Readonly<Record<Exclude<Lane, "compat">, readonly string[]>> = {
  vendor_a: ["VENDORA_API_KEY", "ANTHROPIC_API_KEY"],
  vendor_b: ["VENDORB_API_KEY", "OPENAI_API_KEY"],
  vendor_c: ["VENDORC_API_KEY", "GEMINI_API_KEY"],
};

export interface KeySources {
  env: (name: string) => string | undefined;
  file: ReadonlyMap<string, string>;
  /** The setting `compat.api_key_env`; empty for an endpoint without a key. */
  compat_variable?: string;
}

export interface ApiKey {
  /** Never to be logged. */
  secret: string;
  source: string;
}

export function keysPath(home: string): string {
  return `${taskdHome(home)}/api-keys.env`;
}

/** The file of the tokens of `broker.api_addr`, which the broker alone writes. */
export function apiTokensPath(home: string): string {
  return `${taskdHome(home)}/api-tokens.json`;
}

/**
 * Reads api-keys.env; empty when there is none.
 *
 * @throws {TaskdError} `denied` when others can read it, with the chmod to run; `invalid_config` with the line's number.
 */
export async function readKeys(home: string): Promise<Map<string, string>> {
  const path = keysPath(home);
  return parseEnvFile(path, await readPrivateFile(path, "secret") ?? "");
}

/**
 * Writes keys into api-keys.env, durably and as 0600; null removes one. Other lines stay.
 *
 * @throws {TaskdError} like {@linkcode readKeys}, and when the file cannot be written.
 */
export async function writeKeys(home: string, changes: ReadonlyMap<string, string | null>): Promise<void> {
  const path = keysPath(home);
  for (const [name, secret] of changes) if (secret !== null) checkKey(secret, name);
  const text = changeEnvFile(path, await readPrivateFile(path, "secret") ?? "", changes);
  await writeFileAtomic(path, new TextEncoder().encode(text), 0o600);
}

/**
 * A lane's key; undefined when there is none. For each variable in turn the environment precedes the file.
 *
 * @throws {TaskdError} `invalid_config` when what is there cannot be a key.
 */
export function apiKey(lane: Lane, { env, file, compat_variable = "" }: KeySources): ApiKey | undefined {
  return firstKey(lane === "compat" ? [compat_variable] : KEY_VARIABLES[lane], { env, file });
}

function firstKey(variables: readonly string[], { env, file }: Pick<KeySources, "env" | "file">): ApiKey | undefined {
  for (const name of variables) {
    if (name === "") continue;
    for (const [where, text] of [["env", env(name)], ["api-keys.env", file.get(name)]] as const) {
      const secret = text?.trim() ?? "";
      if (secret !== "") return { secret: checkKey(secret, `${where}:${name}`), source: `${where}:${name}` };
    }
  }
  return undefined;
}

/** Fewest characters of the token of the metrics, as of the branch store's. */
const MIN_TOKEN_CHARS = 16;

/**
 * The bearer token that `broker.metrics_addr` asks for; undefined when the settings name none.
 *
 * @throws {TaskdError} `invalid_config` when there is none in the variable that they name, or it cannot be one.
 */
export function metricsToken(
  { metrics_addr, metrics_token_env: variable }: Pick<Settings["broker"], "metrics_addr" | "metrics_token_env">,
  sources: Pick<KeySources, "env" | "file">,
): string | undefined {
  if (metrics_addr === "" || variable === "") return undefined;
  const token = firstKey([variable], sources)?.secret;
  const named = `the token of ${variable}, which broker.metrics_token_env names`;
  const hint = `Put one into the environment or ~/.taskd/api-keys.env: ${variable}=$(openssl rand -hex 32)`;
  if (token === undefined) throw new TaskdError("invalid_config", `Cannot use ${named}: there is none`, { hint });
  if (token.length >= MIN_TOKEN_CHARS) return token;
  throw new TaskdError("invalid_config", `Cannot use ${named}: it is shorter than ${MIN_TOKEN_CHARS} characters`, {
    hint,
  });
}

/** A key is sent in a header: other characters would be refused there, or begin a second header. */
function checkKey(secret: string, where: string): string {
  if (/^[\x21-\x7e]{1,4096}$/.test(secret)) return secret;
  throw new TaskdError("invalid_config", `Cannot use the key of ${where}: it has characters that no key has`, {
    hint: "Copy the key again, without spaces, quotes and line breaks",
  });
}
