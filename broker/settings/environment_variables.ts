/**
 * The variables of the environment that configuration is read from: what a program that
 * resolves it has to be allowed to read.
 *
 * @module
 */

import { KEY_VARIABLES } from "./keys.ts";
import { EGRESS_VARIABLE } from "./load.ts";
import { SETTING_PATHS, SETTINGS } from "./settings.ts";

/** What the parser of YAML asks for when it reads a file; a program that may not say so to it cannot read one. */
const PARSER_VARIABLES = ["LOG_STREAM", "LOG_TOKENS"];

/** Every name, each once; the one in `compat.api_key_env` is only known once the settings are loaded. */
export function configurationVariables(): string[] {
  const settings = SETTING_PATHS.flatMap((path) => SETTINGS[path].env ?? []);
  const keys = Object.values(KEY_VARIABLES).flat();
  return [...new Set(["HOME", "TMPDIR", EGRESS_VARIABLE, ...settings, ...keys, ...PARSER_VARIABLES])];
}
