/**
 * The steps of `setup`: the home directory, the runtime, the default agent, its key or
 * endpoint, the images. Each answer comes from a flag, from a person or from the current
 * settings; only what was chosen is written, and only if the settings are valid with it.
 *
 * Running it again with the same answers changes nothing.
 */

import { TaskdError } from "../../lib/errors.ts";
import { writeFileAtomic } from "../../lib/fs.ts";
import { type AgentName, agentOf, AGENTS, type Lane, LANES, laneText } from "../../broker/agents.ts";
import { parseEnvFile } from "../../broker/settings/env_file.ts";
import { describePlace, InvalidConfig } from "../../broker/settings/invalid_config.ts";
import { apiKey, KEY_VARIABLES, readKeys, writeKeys } from "../../broker/settings/keys.ts";
import { loadSettings, taskdHome } from "../../broker/settings/load.ts";
import { readPrivateFile } from "../../broker/settings/private_file.ts";
import { seedHome } from "../../broker/settings/seed.ts";
import type { RuntimeName, SettingPath, Settings } from "../../broker/settings/settings.ts";
import { changeConfig, type PlainValue } from "./config_edit.ts";
import type { Prompt } from "./prompt.ts";
import { remedyOf } from "../../broker/sandbox/open_runtime.ts";
import { isContainerRuntime } from "../../broker/sandbox/runtime.ts";
import { chooseRuntime, describeRuntime, type FoundRuntime } from "../../broker/sandbox/installed_runtimes.ts";

/** Answers that flags give. */
export interface Answers {
  runtime?: RuntimeName | undefined;
  agent?: AgentName | undefined;
  compat_url?: string | undefined;
  compat_model?: string | undefined;
  /** Keys by lane. Never shown. */
  keys: ReadonlyMap<Lane, string>;
  build_images: "missing" | "all" | "none";
  /** Take the suggestion where there is no answer. */
  yes: boolean;
}

export interface WizardOptions {
  home: string;
  uid: number;
  env: (name: string) => string | undefined;
  answers: Answers;
  /** Asks the person; nothing is asked when absent. */
  prompt?: Prompt | undefined;
  findRuntimes: () => Promise<FoundRuntime[]>;
  /** Whether an agent's program is on this machine, where sandboxes may see it. */
  isInstalled: (agent: AgentName) => boolean;
  hasImage: (runtime: FoundRuntime, image: string) => Promise<boolean>;
  buildImages: (runtime: FoundRuntime, settings: Settings) => Promise<void>;
  say: (text: string) => void;
}

export interface WizardResult {
  /** Settings that were changed, with their new values. */
  changed: Record<string, PlainValue>;
  /** Variables under which keys were stored. */
  keys_stored: string[];
  images_built: string[];
  runtime: string;
  agent: AgentName;
}

interface StepOptions extends WizardOptions {
  before: Settings;
  changes: Map<SettingPath, PlainValue>;
}

/** The variable of the endpoint's key where none is named. */
const COMPAT_VARIABLE = "COMPAT_API_KEY";

/** Runs the steps; throws like `loadSettings`, and `interrupted`. */
export async function runWizard(options: WizardOptions): Promise<WizardResult> {
  const { home, say } = options;
  for (const path of (await seedHome(home)).created) say(`Wrote ${path}`);
  const changes: StepOptions["changes"] = new Map();
  const shared = { ...options, before: await loadWith(options), changes };
  const runtime = await chooseRuntimeStep(shared);
  const agent = await chooseAgentStep(shared, runtime);
  const { compat_url, compat_model } = options.answers;
  if (agentOf(agent).lane === "compat" || (compat_url ?? compat_model) !== undefined) await compatStep(shared);
  const keys = await keysStep(shared, agent);
  const settings = await saveConfig(shared);
  if (keys.size > 0) {
    await writeKeys(home, keys);
    say(`Stored ${[...keys.keys()].join(", ")} in ${taskdHome(home)}/api-keys.env`);
  }
  const images_built = await imagesStep(options, settings, runtime);
  return {
    changed: Object.fromEntries(changes),
    keys_stored: [...keys.keys()],
    images_built,
    runtime: describeRuntime(runtime),
    agent,
  };
}

/** The settings as they would be with another text of config.yaml. */
async function loadWith({ home, env, uid }: WizardOptions, text?: string): Promise<Settings> {
  const config = `${taskdHome(home)}/config.yaml`;
  const read: typeof readPrivateFile = (path, privacy) =>
    path === config && text !== undefined ? Promise.resolve(text) : readPrivateFile(path, privacy);
  return (await loadSettings({ home, env, uid, read })).settings;
}

async function chooseRuntimeStep(options: StepOptions): Promise<FoundRuntime> {
  const { answers, before, changes, prompt, say } = options;
  const found = await options.findRuntimes();
  const has_program = options.isInstalled(answers.agent ?? before.default_agent);
  for (const runtime of found) say(`${runtime.works ? "Found " : ""}${describeRuntime(runtime)}`);
  let requested = answers.runtime ?? before.runtime;
  if (answers.runtime === undefined && prompt !== undefined) {
    const best = chooseRuntime("auto", found, has_program);
    const usable = found.filter(({ works }) => works).map((one) => ({ value: one.name, help: describeRuntime(one) }));
    const auto = { value: "auto" as const, help: `whichever works, now ${best?.name ?? "none"}` };
    requested = await prompt.choose<RuntimeName>("What runs sandboxes", [auto, ...usable], before.runtime);
  }
  const chosen = chooseRuntime(requested, found, has_program);
  if (chosen === undefined) {
    const why = `Cannot use the runtime ${requested}: it is not installed or does not work`;
    const remedy = remedyOf(requested, found.find(({ name }) => name === requested));
    throw new TaskdError("sandbox_failed", why, {
      hint: remedy ?? "Install it, or choose another: taskd setup --runtime auto",
    });
  }
  if (requested === "auto") say(whyChosen(chosen, found));
  if (requested !== before.runtime) changes.set("runtime", requested);
  return chosen;
}

/** Why `auto` comes to a runtime: containers first, then programs of this machine, then the built-in agent. */
function whyChosen({ name }: FoundRuntime, found: readonly FoundRuntime[]): string {
  if (isContainerRuntime(name)) return `Sandboxes are containers of ${name}`;
  const contained = "no container runtime works here";
  if (name === "bubblewrap") return `Sandboxes are made by bubblewrap: ${contained}`;
  const works = found.some((one) => one.name === "bubblewrap" && one.works);
  const other = works ? "the agent's program is not installed" : "bubblewrap is not installed, or does not work";
  return `Sandboxes are the embedded runtime's: ${contained}, and ${other}`;
}

async function chooseAgentStep(options: StepOptions, runtime: FoundRuntime): Promise<AgentName> {
  const { answers, before, changes, prompt, say } = options;
  const embedded = runtime.name === "deno";
  const has = (name: AgentName) => runtime.name !== "bubblewrap" || options.isInstalled(name);
  const usable = AGENTS.filter(({ name }) => embedded ? name === "agent_d" : has(name));
  if (usable.length === 0) throw noAgent();
  const suggested = usable.some(({ name }) => name === before.default_agent) ? before.default_agent : usable[0]!.name;
  let agent = answers.agent ?? (answers.yes ? suggested : before.default_agent);
  if (answers.agent === undefined && prompt !== undefined) {
    const choices = usable.map(({ name, label, lane }) => ({
      value: name,
      help: `${label}, paid at ${laneText(lane)}`,
    }));
    agent = await prompt.choose<AgentName>("The agent that runs unless a task names another", choices, suggested);
  }
  if (embedded && agent !== "agent_d") {
    say(`The embedded runtime runs agent_d alone, and ${agent} is the default agent`);
  }
  if (agent !== before.default_agent) changes.set("default_agent", agent);
  return agent;
}

function noAgent(): TaskdError {
  const labels = AGENTS.map(({ label }) => label).join(", ");
  return new TaskdError("not_found", `Cannot set up bubblewrap: none of ${labels} is installed where PATH leads`, {
    hint: `Install one, such as: npm install -g ${AGENTS[0]!.package}`,
  });
}

async function compatStep({ answers, before: { compat }, changes, prompt }: StepOptions): Promise<void> {
  let url = answers.compat_url;
  if (url === undefined && prompt !== undefined) {
    url = await prompt.line("URL of the OpenAI-compatible endpoint", compat.base_url + compat.base_path);
  }
  if (url !== undefined && url !== "" && url !== compat.base_url + compat.base_path) {
    const [base_url, base_path] = splitEndpoint(url);
    if (base_url !== compat.base_url) changes.set("compat.base_url", base_url);
    if (base_path !== compat.base_path) changes.set("compat.base_path", base_path);
  }
  let model = answers.compat_model;
  if (model === undefined && prompt !== undefined) model = await prompt.line("Its model", compat.model);
  if (model !== undefined && model !== "" && model !== compat.model) changes.set("compat.model", model);
}

/** An endpoint is often copied with its path; the settings have one of each. */
function splitEndpoint(text: string): [base_url: string, base_path: string] {
  const url = URL.parse(text);
  if (url === null || url.pathname === "/") return [text, ""];
  const base_path = url.pathname.replace(/\/+$/, "");
  url.pathname = "";
  return [url.href.replace(/\/$/, ""), base_path];
}

async function keysStep(options: StepOptions, agent: AgentName): Promise<Map<string, string>> {
  const { answers, before, env, home, prompt, say } = options;
  const keys = new Map([...answers.keys].map(([lane, secret]) => [variableOf(lane, options), secret]));
  const { lane } = agentOf(agent);
  const subscribed = (lane === "vendor_a" || lane === "vendor_b") && before[`${lane}_auth`] === "subscription";
  if (prompt === undefined || answers.keys.has(lane) || subscribed) return keys;
  const file = await readKeys(home);
  const known = apiKey(lane, { env, file, compat_variable: before.compat.api_key_env });
  if (known !== undefined) {
    say(`The key of ${laneText(lane)} is there: ${known.source}`);
    if (!await prompt.confirm("Replace it?", false)) return keys;
  }
  const question = lane === "compat" ? "Key of the endpoint, empty for none" : `Key of ${laneText(lane)}`;
  const secret = await prompt.secret(question);
  if (secret !== "") keys.set(variableOf(lane, options), secret);
  return keys;
}

/** The variable under which a key is stored; for the endpoint, the setting is added when there is none. */
function variableOf(lane: Lane, { before, changes }: StepOptions): string {
  if (lane !== "compat") return KEY_VARIABLES[lane][0]!;
  if (before.compat.api_key_env !== "") return before.compat.api_key_env;
  changes.set("compat.api_key_env", COMPAT_VARIABLE);
  return COMPAT_VARIABLE;
}

/** Writes config.yaml if it changes; a text that would not load is not written. */
async function saveConfig(options: StepOptions): Promise<Settings> {
  const path = `${taskdHome(options.home)}/config.yaml`;
  const text = await readPrivateFile(path, "own") ?? "";
  const changed = changeConfig(path, text, options.changes);
  let settings: Settings;
  try {
    settings = await loadWith(options, changed);
  } catch (error) {
    throw refusedChange(path, error);
  }
  if (changed === text) return settings;
  await writeFileAtomic(path, new TextEncoder().encode(changed), 0o600);
  for (const [name, value] of options.changes) options.say(`Set ${name}: ${value}`);
  return settings;
}

/** The settings loaded before the change, so an answer is at fault; its line is in no file that could be edited. */
function refusedChange(path: string, error: unknown): unknown {
  if (!(error instanceof InvalidConfig) || !("file" in error.place)) return error;
  const what = error.message.slice(`Cannot use ${describePlace(error.place)}: `.length);
  return new TaskdError("invalid_config", `Cannot change ${path}: ${what}`, {
    cause: error,
    hint: "Nothing was written: run taskd setup again with another answer",
  });
}

async function imagesStep(options: WizardOptions, settings: Settings, runtime: FoundRuntime): Promise<string[]> {
  const { answers, buildImages, prompt, hasImage, say } = options;
  if (!isContainerRuntime(runtime.name)) return [];
  const images: string[] = [];
  for (const image of [settings.sandbox_image, settings.anchor_image]) {
    if (answers.build_images === "all" || !await hasImage(runtime, image)) images.push(image);
  }
  if (images.length === 0) return [];
  const names = images.join(" and ");
  if (answers.build_images === "none") {
    say(`Missing: ${names}`);
    return [];
  }
  if (answers.build_images === "missing" && !answers.yes) {
    if (prompt === undefined) {
      say(`Missing: ${names}. With --yes they are built: it takes minutes and 2 GB`);
      return [];
    }
    if (!await prompt.confirm(`Build ${names} now?`, true)) return [];
  }
  // Both are built together, also where one is there.
  await buildImages(runtime, settings);
  return [settings.sandbox_image, settings.anchor_image];
}

/** Keys of a file of `NAME=value` lines, by lane; names of no key are left alone. Throws with the line, never its text. */
export function keysOfFile(path: string, text: string, compat_variable: string): Map<Lane, string> {
  const found = new Map<Lane, string>();
  for (const [name, value] of parseEnvFile(path, text)) {
    const lane = LANES.find((lane) =>
      lane === "compat" ? name === (compat_variable || COMPAT_VARIABLE) : KEY_VARIABLES[lane].includes(name)
    );
    if (lane !== undefined) found.set(lane, value);
  }
  return found;
}
