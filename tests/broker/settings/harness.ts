/**
 * Configuration for tests: files as texts, and an environment as an object.
 */

import { assertRejects } from "@std/assert";
import { InvalidConfig } from "../../../broker/settings/invalid_config.ts";
import { loadSettings, type ResolvedSettings } from "../../../broker/settings/load.ts";

/** What {@linkcode load} is given. */
export interface Given {
  config?: string;
  egress?: string;
  env?: Record<string, string>;
}

/** Where the files are. */
export const CONFIG = "/home/ada/.taskd/config.yaml";
export const EGRESS = "/home/ada/.taskd/egress.yaml";

/** Loads these files and variables, and nothing of the machine's. */
export function load({ config, egress, env = {} }: Given = {}): Promise<ResolvedSettings> {
  const files: Record<string, string | undefined> = { [CONFIG]: config, [EGRESS]: egress };
  return loadSettings({
    home: "/home/ada",
    uid: 1000,
    env: (name) => env[name],
    read: (path) => Promise.resolve(files[path]),
  });
}

/** The refusal of what cannot be loaded. */
export function refusal(given: Given): Promise<InvalidConfig> {
  return assertRejects(() => load(given), InvalidConfig);
}
