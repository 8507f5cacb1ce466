/**
 * The files that `init` writes: a directory for one user alone, and in it the settings
 * and the egress list, every default commented out. What exists is never touched.
 */

import { stringify } from "@std/yaml/stringify";
import { makeDirectories, withFileError } from "../../lib/fs.ts";
import { taskdHome } from "./load.ts";
import { createPrivateFile } from "./private_file.ts";
import { GROUPS, SETTING_PATHS, type SettingPath, SETTINGS } from "./settings.ts";

export interface Seeded {
  directory: string;
  created: string[];
  kept: string[];
}

/**
 * Makes `~/.taskd` (0700) and the files in it that do not exist (0600).
 *
 * @param home The user's home directory, absolute.
 * @throws {TaskdError} `denied`, `no_space` or `unavailable`.
 */
export async function seedHome(home: string): Promise<Seeded> {
  const directory = taskdHome(home);
  withFileError(`Cannot make the directory ${directory}`, () => makeDirectories(directory));
  closeDirectory(directory);
  const seeded: Seeded = { directory, created: [], kept: [] };
  for (const [name, text] of [["config.yaml", configText()], ["egress.yaml", EGRESS_TEXT]] as const) {
    const path = `${directory}/${name}`;
    (await createPrivateFile(path, text) ? seeded.created : seeded.kept).push(path);
  }
  return seeded;
}

/**
 * Makes a directory its owner's alone (0700): it may be older than the broker, and the umask may have taken away too much.
 *
 * @throws {TaskdError} `denied`, `not_found` or `unavailable`.
 */
export function closeDirectory(path: string): void {
  withFileError(`Cannot close the directory ${path} to other users`, () => {
    if (((Deno.statSync(path).mode ?? 0o700) & 0o777) !== 0o700) Deno.chmodSync(path, 0o700);
  });
}

const WIDTH = 100;

export function configText(): string {
  const head = prose(
    "Settings of the task broker. Each line that begins with # and no space is a default: remove the # to change " +
      "it. A variable of the environment, named in brackets, takes precedence over this file. Changes take effect when the " +
      "broker is started again.",
    "",
  );
  const plain = SETTING_PATHS.filter((path) => !path.includes(".")).map((path) => settingText(path, path, ""));
  const groups = GROUPS.map((group) => {
    const paths = SETTING_PATHS.filter((path) => path.startsWith(`${group}.`));
    return [`${group}:`, paths.map((path) => settingText(path, path.slice(group.length + 1), "  ")).join("\n\n")].join(
      "\n",
    );
  });
  return `${[head, ...plain, ...groups].join("\n\n")}\n`;
}

function settingText(path: SettingPath, name: string, indent: string): string {
  const { doc, env, built_in, example } = SETTINGS[path];
  const variable = env === undefined ? "" : ` [${env}]`;
  const lines = stringify({ [name]: built_in }).trimEnd().split("\n").map((line) => `${indent}#${line}`);
  const shown = example?.map((line) => `${indent}#     ${line}`) ?? [];
  return [prose(`${doc}${variable}`, indent), ...shown, ...lines].join("\n");
}

function prose(text: string, indent: string): string {
  const lines: string[] = [];
  for (const word of text.split(" ")) {
    const last = lines.at(-1);
    if (last !== undefined && last.length + 1 + word.length <= WIDTH) lines[lines.length - 1] = `${last} ${word}`;
    else lines.push(`${indent}# ${word}`);
  }
  return lines.join("\n");
}

const EGRESS_TEXT = `${
  prose(
    "What sandboxes may reach in addition to the model gateway: host names with their ports, 443 when none are given. " +
      "What is not listed is refused before its name is resolved. A name admits itself alone; *. before it " +
      "admits every name below it, and not the name itself. Addresses cannot be listed. Changes take effect when " +
      "the broker is started again.",
    "",
  )
}
#
#     allow:
#       - host: packages.example.com
#         ports: [443]
#       - host: "*.cdn.example.com"
allow: []
`;
