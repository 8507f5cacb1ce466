/** The command `taskd setup`. */

import { buildImages, type BuildImagesOptions } from "../../broker/sandbox/images/build.ts";
import { agentOf, type Lane, laneNamed, LANES, laneText } from "../../broker/agents.ts";
import { isThere } from "../setup/images.ts";
import { readPrivateFile } from "../../broker/settings/private_file.ts";
import type { HostCheck } from "../setup/check.ts";
import { processTerminal, Prompt } from "../setup/prompt.ts";
import type { RuntimeName } from "../../broker/settings/settings.ts";
import { isContainerRuntime } from "../../broker/sandbox/runtime.ts";
import { findRuntimes } from "../../broker/sandbox/installed_runtimes.ts";
import { type Answers, keysOfFile, runWizard, type WizardResult } from "../setup/wizard.ts";
import { TaskdError } from "../../lib/errors.ts";
import { readText } from "../../lib/http/body.ts";
import type { Args } from "../plan/args.ts";
import type { Io } from "../text/io.ts";
import { asking, environment } from "./_environment.ts";
import { checkLines, examineHost } from "./doctor.ts";

export interface SetupReport extends WizardResult {
  checks: HostCheck[];
  ready: boolean;
  next: string;
}

/** Runs the steps. With --json, and where stdin is not a terminal, nothing is asked. */
export async function run(args: Args, io: Io): Promise<SetupReport> {
  const source = sourceOf(args);
  const answers = await answersOf(args);
  const asks = !args.on("yes") && !args.on("non-interactive") && !io.json && Deno.stdin.isTerminal();
  const ask = asking(args, io.signal);
  const done = await runWizard({
    home: args.broker.home,
    uid: Deno.uid() ?? 0,
    env: environment(args),
    answers,
    prompt: asks ? new Prompt(processTerminal, io.signal) : undefined,
    findRuntimes: () =>
      findRuntimes({ ask, deno: { path: args.host.deno, version: Deno.version.deno }, places: args.host.programs }),
    isInstalled: (agent) => args.host.view.programs.includes(agentOf(agent).label),
    hasImage: (runtime, image) => isThere("image", image, runtime, ask),
    buildImages: ({ name, path }, settings) => {
      if (!isContainerRuntime(name)) return Promise.resolve();
      const images = { sandbox: settings.sandbox_image, anchor: settings.anchor_image };
      return buildImages({ ...source, runtime: { name, path }, images, ...building(args, io) });
    },
    say: (text) => io.note(text),
  });
  const checks = await examineHost(args, io);
  const ready = checks.every(({ status }) => status !== "fail");
  const inSync = checks.some(({ name, status }) => name === "in sync" && status === "ok");
  const next = !ready ? "taskd doctor" : inSync ? "taskd submit <repo> <instruction>" : "taskd start";
  return { ...done, checks, ready, next };
}

function sourceOf(args: Args): Pick<BuildImagesOptions, "from" | "base"> {
  const base = args.text("base");
  return { from: args.choice<BuildImagesOptions["from"]>("from")!, ...(base === undefined ? {} : { base }) };
}

/** Prints each step; on a terminal also the last line of a program's output, until the next one. */
function building(args: Args, io: Io): Pick<BuildImagesOptions, "env" | "signal" | "onProgress"> {
  return {
    env: environment(args),
    signal: io.signal,
    onProgress: (progress) => {
      if ("step" in progress) io.note(`Building: ${progress.step}`);
      else void io.live()?.show(progress.line);
    },
  };
}

async function answersOf(args: Args): Promise<Answers> {
  const agent = args.text("agent");
  return {
    runtime: args.choice<RuntimeName>("runtime"),
    agent: agent === undefined ? undefined : agentOf(agent).name,
    compat_url: args.text("compat-url"),
    compat_model: args.text("compat-model"),
    keys: await keysOf(args),
    build_images: args.on("rebuild-images") ? "all" : args.on("build-images") ? "missing" : "none",
    yes: args.on("yes"),
  };
}

async function keysOf(args: Args): Promise<Map<Lane, string>> {
  const keys = new Map<Lane, string>();
  const file = args.text("key-file");
  if (file !== undefined) {
    const text = await readPrivateFile(file, "secret");
    if (text === undefined) throw new TaskdError("not_found", `Cannot read keys: ${file} does not exist`);
    const compat = args.broker.settings?.compat.api_key_env ?? "";
    for (const [lane, secret] of keysOfFile(file, text, compat)) keys.set(lane, secret);
  }
  const lanes = args.texts("key").map(laneOf);
  if (lanes.length === 0) return keys;
  const stdin = await readText(new Response(Deno.stdin.readable), MAX_STDIN_BYTES);
  if (stdin === undefined) throw new TaskdError("too_large", "Cannot read keys from stdin: it does not end");
  const lines = stdin.split("\n");
  for (const [index, lane] of lanes.entries()) {
    const secret = lines[index]?.trim() ?? "";
    if (secret === "") {
      throw new TaskdError("usage", `Cannot take the key of ${laneText(lane)}: line ${index + 1} of stdin is empty`, {
        hint: "Give a line for each --key, in their order",
      });
    }
    keys.set(lane, secret);
  }
  return keys;
}

/** A key is refused in a command line: other users can see it, and the shell's history keeps it. */
function laneOf(text: string): Lane {
  const at = text.indexOf("=");
  const name = at < 0 ? text : text.slice(0, at);
  const lane = laneNamed(name);
  const on_stdin = text.slice(at) === "=-";
  if (lane !== undefined && on_stdin) return lane;
  const problem = on_stdin
    ? "Cannot take a key: there is no such vendor"
    : "Cannot take a key from the command line: others can see it there";
  throw new TaskdError("usage", problem, {
    hint: `Write --key ${lane ?? "vendor_a"}=- and give the key on stdin; vendors are ${
      LANES.map(laneText).join(", ")
    }`,
  });
}

/** The most that is read from stdin, in bytes; four keys take far less. */
const MAX_STDIN_BYTES = 65_536;

export async function render({ checks, ready, next }: SetupReport, io: Io): Promise<string> {
  const shown = checks.filter(({ name }) => name !== "broker" && name !== "in sync");
  const silent = checks.some(({ name, status }) => name === "endpoint" && status !== "ok");
  return [
    ...await checkLines(shown, io),
    !ready
      ? "Not ready yet: see what failed above"
      : silent
      ? "Ready as soon as the model's endpoint answers"
      : "Everything that the default agent needs is ready",
    `Next: ${next}`,
  ].join("\n");
}
