/**
 * Kinds of settings that are lists and maps: globs of the diff policy, profiles of
 * repositories, prices, vendor tools.
 *
 * @module
 */

import { TaskdError } from "../../lib/errors.ts";
import { parseRepo } from "../git/repo_url.ts";
import { compileGlob } from "../git/glob.ts";
import { asList, asMap, asText, duration, fieldsOf, type Json, type Kind, MAX_WAIT, refuse, SWITCH } from "./kinds.ts";
import type { Node } from "./nodes.ts";

/** What of a model costs, in USD for a million tokens. */
export interface Price {
  input: number;
  output: number;
}

/** How tasks of one repository are prepared. */
export interface Profile {
  /** Commands, each a list of arguments, run on the work tree before the agent starts. */
  setup: string[][];
  /** Commands that must succeed before the agent starts. */
  readiness: string[][];
  /** Milliseconds for each command; never 0. */
  timeout: number;
  /** Whether the repository takes part in the dependency cache. */
  cache: boolean;
}

const MAX_GLOBS = 1_000;
const MAX_GLOB_LENGTH = 1_024;

/** Patterns of paths in a repository. */
export const GLOBS: Kind<string[]> = {
  type: "list of globs",
  read: (node) => asList(node, 'must be a list of globs, such as ["dir/**"]', MAX_GLOBS).map(readGlob),
  show: (value) => value,
};

function readGlob(node: Node): string {
  const rule = "must be a glob of paths in the repository";
  const glob = asText(node, rule);
  if (glob === "" || glob !== glob.trim() || glob.length > MAX_GLOB_LENGTH) {
    refuse(node, `${rule}, without spaces around it`);
  }
  if (glob.endsWith("/")) {
    refuse(node, "must not end with a slash: such a pattern matches nothing", { hint: `Write ${glob}**` });
  }
  if (glob.startsWith("/") || glob.startsWith("./")) {
    refuse(node, "must be relative to the repository: with this beginning it matches nothing", {
      hint: `Write ${glob.replace(/^\.?\/+/, "")}`,
    });
  }
  if (glob.startsWith("!")) {
    refuse(node, "must say what to match, not what not to match", { hint: "For a name that begins with !, write \\!" });
  }
  if (glob.split("/").some((segment) => segment === ".." || segment === "." || segment === "")) {
    refuse(node, "must have no segment that is empty, . or ..: it matches nothing");
  }
  const fault = faultOf(() => compileGlob(glob));
  if (fault !== undefined) refuse(node, `${rule} that can be read`, { hint: fault.message });
  return glob;
}

/** What `parse` refuses with; undefined when it does not. */
function faultOf(parse: () => unknown): TaskdError | undefined {
  try {
    parse();
  } catch (error) {
    if (error instanceof TaskdError) return error;
    throw error;
  }
  return undefined;
}

/** Repositories and how their tasks are prepared. */
export const PROFILES: Kind<Record<string, Profile>> = {
  type: "map of `host/owner/repo`",
  read(node, around) {
    const profiles = emptyRecord<Profile>();
    for (const { key, key_place, value } of asMap(node, "must be a map from host/owner/repo to a profile")) {
      const at: Node = {
        kind: "scalar",
        name: `the key below ${node.name}`,
        place: key_place,
        value: key,
        source: key,
      };
      checkRepoKey(at);
      const fields = fieldsOf(value, ["setup", "readiness", "timeout", "cache"], "must be a profile");
      profiles[key] = {
        setup: fields.setup ? readCommands(fields.setup) : [],
        readiness: fields.readiness ? readCommands(fields.readiness) : [],
        timeout: fields.timeout ? COMMAND_TIMEOUT.read(fields.timeout, around) : 600_000,
        cache: fields.cache ? SWITCH.read(fields.cache, around) : false,
      };
    }
    return profiles;
  },
  show: (value) => mapRecord(value, (profile) => ({ ...profile, timeout: COMMAND_TIMEOUT.show(profile.timeout) })),
};

/** The contract's ten minutes for each command, also for 0. */
const COMMAND_TIMEOUT = duration({ maximum: MAX_WAIT, zero_means: "10m" });

function checkRepoKey(node: Node): void {
  const rule = "must be a repository as host/owner/repo";
  const key = asText(node, rule);
  // As an address of https it keeps a port, which alone would be read as the path of an ssh address.
  const address = `https://${key}`;
  if (canonicalRepo(/^[a-z]+:\/\//i.test(key) ? key : address) === key) return;
  const meant = canonicalRepo(/^[^/@:]+:\d+\//.test(key) ? address : key);
  refuse(node, rule, { secret: key.includes("@"), ...(meant === undefined ? {} : { hint: `Write ${meant}` }) });
}

/** What a spelling of a repository means as a key; undefined when it is none. */
function canonicalRepo(spelling: string): string | undefined {
  let canonical: string | undefined;
  faultOf(() => canonical = parseRepo(spelling).canonical);
  return canonical;
}

const MAX_COMMANDS = 100;
const MAX_ARGUMENTS = 1_000;

function readCommands(node: Node): string[][] {
  const rule = 'must be a list of commands, each a list of arguments, such as [["npm", "ci"]]';
  return asList(node, rule, MAX_COMMANDS).map((command) => {
    const words = asList(command, 'must be a list of arguments, such as ["npm", "ci"]', MAX_ARGUMENTS).map((word) => {
      if (word.kind === "scalar" && typeof word.value === "string" && !word.value.includes("\0")) return word.value;
      refuse(word, "must be text, in quotes where it looks like something else");
    });
    if (words[0] === undefined || words[0].trim() === "") refuse(command, "must begin with the name of a program");
    return words;
  });
}

const MAX_PRICE = 1_000_000;

/** Prices of models. */
export const PRICES: Kind<Record<string, Price>> = {
  type: "map of model ids to `{input, output}`, USD per 1M tokens",
  read(node) {
    const prices = emptyRecord<Price>();
    for (const { key, key_place, value } of asMap(node, "must be a map from model ids to prices")) {
      if (!/^[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,199}$/.test(key)) {
        refuse(
          { kind: "scalar", name: node.name, place: key_place, value: key, source: key },
          "must name a model, or default",
        );
      }
      const fields = fieldsOf(value, ["input", "output"], "must have input and output");
      if (!fields.input || !fields.output) refuse(value, "must have both input and output");
      prices[key] = { input: readPrice(fields.input), output: readPrice(fields.output) };
    }
    return prices;
  },
  show: (value) => mapRecord(value, ({ input, output }) => ({ input, output })),
};

function readPrice(node: Node): number {
  const rule = `must be USD per 1M tokens, from 0 to ${MAX_PRICE}`;
  if (node.kind !== "scalar" || typeof node.value !== "number") refuse(node, rule);
  if (!(node.value >= 0 && node.value <= MAX_PRICE)) refuse(node, rule);
  return node.value;
}

/** What vendors may do in the agent's stead, by the names that the gateway's refusals give. */
export const TOOL_NAMES: Kind<string[]> = {
  type: "list of names",
  read: (node) =>
    asList(node, "must be a list of names", 200).map((item) => {
      const rule = "must be a name that a refusal of the gateway gives";
      const name = asText(item, rule);
      if (!/^[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}$/.test(name)) refuse(item, rule);
      return name;
    }),
  show: (value) => value,
};

/** A record in which `__proto__` and `constructor` are names like any other. */
function emptyRecord<T>(): Record<string, T> {
  return Object.create(null);
}

function mapRecord<T>(record: Record<string, T>, change: (value: T) => Json): Json {
  return Object.fromEntries(Object.entries(record).map(([key, value]) => [key, change(value)]));
}
