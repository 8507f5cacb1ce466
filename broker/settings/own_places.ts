/**
 * Every path by which another user of the machine could become the operator, with its row of the table of
 * lib/trusted_path.ts: what the broker makes sure of as it uses each, and `doctor` of all at once.
 */

import { parentOf } from "../../lib/real_path.ts";
import { requireTrusted, type TrustRuleName } from "../../lib/trusted_path.ts";
import { apiTokensPath, keysPath } from "./keys.ts";
import { taskdHome } from "./load.ts";
import { oauthPath } from "./oauth.ts";
import { requireOwnRoot, ROOTS } from "./roots.ts";
import type { Settings } from "./settings.ts";
import { faultOf } from "./value_schemas.ts";

export interface OwnPlace {
  path: string;
  rule: TrustRuleName;
}

export interface OwnPlaceOptions {
  /** The home directory. */
  home: string;
  /** Another egress list than the one in `~/.taskd`. */
  egress_list?: string | undefined;
  /** Without them, what they name is left out. */
  settings?: Settings | undefined;
}

/** The files of `~/.taskd` that people write, and the one of API tokens. */
export function ownFiles({ home, egress_list }: OwnPlaceOptions): OwnPlace[] {
  const directory = taskdHome(home);
  const settings = [`${directory}/config.yaml`, egress_list ?? `${directory}/egress.yaml`, `${directory}/prices.json`];
  const secrets = [keysPath(home), apiTokensPath(home), oauthPath(home, "vendor_a"), oauthPath(home, "vendor_b")];
  return [
    ...settings.map((path): OwnPlace => ({ path, rule: "settings" })),
    ...secrets.map((path): OwnPlace => ({ path, rule: "secret" })),
  ];
}

/** All but the roots, which {@linkcode requireOwnRoot} makes sure of. */
export function ownPlaces(options: OwnPlaceOptions): OwnPlace[] {
  const directory = taskdHome(options.home);
  const { settings } = options;
  const places: OwnPlace[] = [
    { path: directory, rule: "home" },
    ...ownFiles(options),
    { path: `${directory}/queue`, rule: "root" },
  ];
  if (settings === undefined) return places;
  const { broker, branch_store, audit_root } = settings;
  return [
    ...places,
    { path: `${audit_root}/global`, rule: "root" },
    { path: parentOf(broker.socket), rule: "socket_directory" },
    { path: broker.socket, rule: "socket" },
    { path: branch_store.socket, rule: "socket" },
  ];
}

/** What is wrong with one of them, and what to do. */
export interface UntrustedPlace {
  problem: string;
  remedy: string;
}

/** What the broker would refuse; what is not there yet is not wrong. */
export function untrustedPlaces(options: OwnPlaceOptions): UntrustedPlace[] {
  const { home, settings } = options;
  const checks: (() => void)[] = ownPlaces(options).map(({ path, rule }) => () => void requireTrusted(path, rule));
  if (settings !== undefined) checks.push(...ROOTS.map((name) => () => requireOwnRoot(name, settings[name], home)));
  const found = new Map<string, UntrustedPlace>();
  for (const check of checks) {
    const fault = faultOf(check);
    if (fault === undefined) continue;
    // One directory above may be wrong for many.
    const { message: problem, hint: remedy = "Repair it and run taskd doctor again" } = fault;
    if (!found.has(problem)) found.set(problem, { problem, remedy });
  }
  return [...found.values()];
}
