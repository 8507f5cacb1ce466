/**
 * valibot schemas of settings that are lists and maps: globs of the diff policy, profiles of repositories, prices,
 * vendor tools.
 */

import * as v from "valibot";
import { parseRepo } from "../git/repo_url.ts";
import { compileGlob } from "../git/glob.ts";
import {
  check,
  choice,
  decimal,
  duration,
  faultOf,
  fields,
  formatExact,
  list,
  mapOf,
  MAX_WAIT,
  SWITCH,
  text,
  textLike,
  withHint,
} from "./value_schemas.ts";

const GLOB_RULE = "must be a glob of paths in the repository";
const MAX_GLOB_LENGTH = 1_024;

export const GLOBS = v.pipe(
  list(v.pipe(text(GLOB_RULE), check(globFault)), 'must be a list of globs, such as ["dir/**"]', 1_000),
  v.metadata({ type: "list of globs" }),
);

function globFault(glob: string): string | undefined {
  if (glob === "" || glob !== glob.trim() || glob.length > MAX_GLOB_LENGTH) {
    return `${GLOB_RULE}, without spaces around it`;
  }
  if (glob.endsWith("/")) {
    return withHint("must not end with a slash: such a pattern matches nothing", `Write ${glob}**`);
  }
  if (glob.startsWith("/") || glob.startsWith("./")) {
    return withHint(
      "must be relative to the repository: with this beginning it matches nothing",
      `Write ${glob.replace(/^\.?\/+/, "")}`,
    );
  }
  if (glob.startsWith("!")) {
    return withHint("must say what to match, not what not to match", "For a name that begins with !, write \\!");
  }
  if (glob.split("/").some((segment) => segment === ".." || segment === "." || segment === "")) {
    return "must have no segment that is empty, . or ..: it matches nothing";
  }
  const fault = faultOf(() => compileGlob(glob));
  return fault && withHint(`${GLOB_RULE} that can be read`, fault.message);
}

const REPO_RULE = "must be a repository as host/owner/repo";

function repoFault(key: string): string | undefined {
  // As an https address it keeps a port; alone, the port would be read as the path of an ssh address.
  const address = `https://${key}`;
  if (canonicalRepo(/^[a-z]+:\/\//i.test(key) ? key : address) === key) return undefined;
  const meant = canonicalRepo(/^[^/@:]+:\d+\//.test(key) ? address : key);
  return withHint(REPO_RULE, meant && `Write ${meant}`);
}

/** The key of a repository, from any spelling of its address; undefined for text that is not one. */
function canonicalRepo(spelling: string): string | undefined {
  let canonical: string | undefined;
  faultOf(() => canonical = parseRepo(spelling).canonical);
  return canonical;
}

const ARGUMENT_RULE = "must be text, in quotes where it looks like something else";

const COMMAND = v.pipe(
  list(
    v.pipe(v.string(ARGUMENT_RULE), v.excludes("\0", ARGUMENT_RULE)),
    'must be a list of arguments, such as ["npm", "ci"]',
    1_000,
  ),
  v.check(([program = ""]) => program.trim() !== "", "must begin with the name of a program"),
);
const COMMANDS = list(COMMAND, 'must be a list of commands, each a list of arguments, such as [["npm", "ci"]]', 100);

const SQL_RULE = "must be one SELECT, of at most 4000 characters";

const CHECK = fields({
  name: v.pipe(text("must be a name"), v.minLength(1, "must be a name"), v.maxLength(100, "must be a short name")),
  /** A database of the task, by its name in the store. */
  database: textLike(/^[a-z0-9_.-]{1,128}$/, { type: "text", rule: "must be the name of a database in the store" }),
  sql: v.pipe(v.string(SQL_RULE), v.maxLength(4_000, SQL_RULE), v.regex(/^\s*(?:select|with|values)\b/i, SQL_RULE)),
  /** What has to hold; absent: the answers are shown. */
  expect: v.exactOptional(choice(["same", "empty"])),
}, "must be a check, with name, database and sql");

/** A query whose answers on base and result stand side by side at the gate. */
export type ProfileCheck = v.InferOutput<typeof CHECK>;

const PROFILE = fields({
  /** Commands, each a list of arguments, run on the work tree before the agent starts. */
  setup: v.nullish(COMMANDS, []),
  readiness: v.nullish(COMMANDS, []),
  /** Milliseconds for each command; never 0. */
  timeout: v.nullish(duration({ maximum: MAX_WAIT, zero_means: "10m" }), "0"),
  /** Whether the repository takes part in the dependency cache. */
  cache: v.nullish(SWITCH, false),
  /** Globs that the approver of a task of this repository has to acknowledge; those of the diff policy count too. */
  second_look_paths: v.nullish(GLOBS, []),
  /** Run where a task has changed the database that they name. */
  checks: v.nullish(list(CHECK, "must be a list of checks", 20), []),
}, "must be a profile");

export type Profile = v.InferOutput<typeof PROFILE>;

export const PROFILES = v.pipe(
  mapOf(v.pipe(text(REPO_RULE), check(repoFault)), PROFILE, "must be a map from host/owner/repo to a profile"),
  v.metadata({
    type: "map of `host/owner/repo`",
    show: (profiles: Record<string, Profile>) =>
      Object.fromEntries(
        Object.entries(profiles).map(([key, { second_look_paths, checks, ...profile }]) => [key, {
          ...profile,
          timeout: formatExact(profile.timeout),
          ...second_look_paths.length === 0 ? {} : { second_look_paths },
          ...checks.length === 0 ? {} : { checks },
        }]),
      ),
  }),
);

const PRICE = decimal("USD", 1_000_000, "must be USD per 1M tokens, from 0 to 1000000");

/** Prices of models, in USD for a million tokens; the key `default` is for every other model. */
export const PRICES = v.pipe(
  mapOf(
    textLike(/^[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,199}$/, { type: "text", rule: "must name a model, or default" }),
    fields({ input: PRICE, output: PRICE }, "must have both input and output"),
    "must be a map from model ids to prices",
  ),
  v.metadata({ type: "map of model ids to `{input, output}`, USD per 1M tokens" }),
);

function namesOfRefusals(pattern: RegExp, type: "list of names" | "list of fields") {
  const name = textLike(pattern, { type: "text", rule: "must be a name that a refusal of the gateway gives" });
  return v.pipe(list(name, `must be a ${type}`, 200), v.metadata({ type }));
}

export const TOOL_NAMES = namesOfRefusals(/^[A-Za-z0-9_][A-Za-z0-9_.:-]{0,199}(?:\.\*)?$/, "list of names");
export const FIELD_PATHS = namesOfRefusals(/^[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}(?:\.\*)?$/, "list of fields");
