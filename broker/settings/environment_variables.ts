/**
 * The variables of the environment that configuration is read from, for the permissions of a program that loads it.
 */

import { KEY_VARIABLES } from "./keys.ts";
import { EGRESS_VARIABLE, RUNTIME_DIR_VARIABLE } from "./load.ts";
import { SETTING_PATHS, SETTINGS } from "./settings.ts";

/** Variables that the YAML parser reads; without permission for them no file can be parsed. */
const PARSER_VARIABLES = ["LOG_STREAM", "LOG_TOKENS"];

/** Every name, each once; the one in `compat.api_key_env` is only known once the settings are loaded. */
export function configurationVariables(): string[] {
  const settings = SETTING_PATHS.flatMap((path) => SETTINGS[path].env ?? []);
  const keys = Object.values(KEY_VARIABLES).flat();
  return [
    ...new Set(["HOME", "TMPDIR", RUNTIME_DIR_VARIABLE, EGRESS_VARIABLE, ...settings, ...keys, ...PARSER_VARIABLES]),
  ];
}
