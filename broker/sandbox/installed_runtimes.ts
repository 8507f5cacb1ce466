/**
 * Which sandbox runtimes the host has, whether each works, and which one `auto` comes to.
 */

import { examineBubblewrap } from "./bubblewrap/examine.ts";
import type { Bounding } from "./bubblewrap/control_groups.ts";
import { randomHex, systemRandom } from "../../lib/clock.ts";
import type { Limits } from "./container_arguments.ts";
import { CONTAINER_RUNTIMES, type ContainerKind, type SandboxRuntimeName } from "./runtime.ts";
import type { RuntimeName } from "../settings/settings.ts";
import { sanitizeLine } from "../../lib/text/sanitize.ts";
import { type AskProgram, findProgram, PROGRAM_PATHS, type ProgramOutput } from "./host_programs.ts";
import { messageOf } from "../../lib/errors.ts";
import { parseJson } from "../../lib/text/json.ts";

export interface FoundRuntime {
  name: SandboxRuntimeName;
  path: string;
  works: boolean;
  version?: string | undefined;
  rootless?: boolean | undefined;
  /** Version of the control groups, which bound memory and processes: `v1` or `v2`. */
  cgroups?: string | undefined;
  oci_runtime?: string | undefined;
  /** What bounds a sandbox as a whole, where programs of the host run in it. */
  bounding?: Bounding | undefined;
  /** Of the embedded runtime: the one that works and that its commands run in. */
  commands?: FoundRuntime | undefined;
  /** Why it does not work, or what is worth knowing. */
  notes: string[];
  /** What to do about it. */
  remedy?: string | undefined;
}

/** The order in which `auto` takes them; the embedded one last. */
export const AUTO_ORDER: readonly SandboxRuntimeName[] = [...CONTAINER_RUNTIMES, "bubblewrap", "deno"];

export interface FindRuntimesOptions {
  ask: AskProgram;
  /** The deno program of the embedded runtime, absolute, and its version. */
  deno: { path: string; version: string };
  places?: typeof PROGRAM_PATHS;
  /** Those that are looked for; all by default. */
  names?: readonly SandboxRuntimeName[];
}

export async function findRuntimes(options: FindRuntimesOptions): Promise<FoundRuntime[]> {
  const { ask, deno, places = PROGRAM_PATHS, names = AUTO_ORDER } = options;
  const found: FoundRuntime[] = [];
  for (const name of names) {
    if (name === "deno") {
      const commands = found.find(({ name, works }) => name === "bubblewrap" && works);
      found.push({ name, path: deno.path, works: true, version: deno.version, rootless: true, commands, notes: [] });
      continue;
    }
    const path = findProgram(name, places);
    if (path === undefined) continue;
    found.push(name === "bubblewrap" ? await tryBubblewrap(path, ask, places) : await describe(name, path, ask));
  }
  return found;
}

/**
 * What the setting `runtime` comes to; undefined when that is not there or does not work. `auto` takes bubblewrap only
 * where `has_program`: the default agent's program is installed.
 */
export function chooseRuntime(
  requested: RuntimeName,
  found: readonly FoundRuntime[],
  has_program: boolean,
): FoundRuntime | undefined {
  const working = found.filter(({ works }) => works);
  if (requested !== "auto") return working.find(({ name }) => name === requested);
  const order = AUTO_ORDER.filter((name) => name !== "bubblewrap" || has_program);
  return order.flatMap((name) => working.filter((runtime) => runtime.name === name))[0];
}

async function tryBubblewrap(path: string, ask: AskProgram, places: typeof PROGRAM_PATHS): Promise<FoundRuntime> {
  const name = "bubblewrap";
  const uid = Deno.uid() ?? 0;
  const systemd = findProgram("systemd-run", places) !== undefined;
  try {
    const { why, ...examined } = await examineBubblewrap({ path, ask, uid, systemd, id: randomHex(systemRandom, 8) });
    return { name, path, rootless: uid !== 0, ...examined, notes: why === undefined ? [] : [why] };
  } catch (error) {
    return { name, path, works: false, notes: [sanitizeLine(messageOf(error)).slice(0, 300)] };
  }
}

async function describe(
  name: ContainerKind,
  path: string,
  ask: AskProgram,
): Promise<FoundRuntime> {
  const broken = (why: string): FoundRuntime => ({
    name,
    path,
    works: false,
    notes: [sanitizeLine(why).slice(0, 300)],
  });
  try {
    const said = await ask(path, QUESTIONS[name]);
    if (said.code !== 0) return broken(complaint(said) ?? `${path} ended with ${said.code}`);
    const answer = ANSWERS[name](said.stdout);
    if (answer === undefined) return broken(complaint(said) ?? `${path} answered something that is not understood`);
    return { name, path, works: true, notes: [], ...answer };
  } catch (error) {
    return broken(messageOf(error));
  }
}

const QUESTIONS: Readonly<Record<ContainerKind, readonly string[]>> = {
  podman: ["info", "--format", "json"],
  docker: ["info", "--format", "json"],
  container: ["--version"],
};

type Answer = Pick<FoundRuntime, "version" | "rootless" | "cgroups" | "oci_runtime">;

const ANSWERS: Readonly<Record<ContainerKind, (stdout: string) => Answer | undefined>> = {
  podman(stdout) {
    const info = parseJson(stdout);
    const host = field(info, "host");
    const version = textOf(field(field(info, "version"), "Version"));
    if (version === undefined) return undefined;
    return {
      version,
      rootless: flagOf(field(field(host, "security"), "rootless")),
      cgroups: textOf(field(host, "cgroupVersion")),
      oci_runtime: textOf(field(field(host, "ociRuntime"), "name")),
    };
  },
  docker(stdout) {
    const info = parseJson(stdout);
    // Without its daemon, docker answers too, with errors and without a version of the server.
    const version = textOf(field(info, "ServerVersion"));
    if (version === undefined || version === "") return undefined;
    const options = field(info, "SecurityOptions");
    const cgroups = textOf(field(info, "CgroupVersion"));
    return {
      version,
      rootless: Array.isArray(options) && options.some((option) => String(option).includes("name=rootless")),
      cgroups: cgroups === undefined ? undefined : `v${cgroups}`,
      oci_runtime: textOf(field(info, "DefaultRuntime")),
    };
  },
  container(stdout) {
    const version = /\b(\d+\.\d+\.\d+\S*)/.exec(stdout)?.[1];
    return version === undefined ? undefined : { version, rootless: true };
  },
};

function field(value: unknown, name: string): unknown {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>)[name] : undefined;
}

function textOf(value: unknown): string | undefined {
  return typeof value === "string" ? sanitizeLine(value).slice(0, 100) : undefined;
}

function flagOf(value: unknown): boolean | undefined {
  return typeof value === "boolean" ? value : undefined;
}

/** The last line of what a program complained about is what it failed with. */
function complaint({ stderr, stdout }: ProgramOutput): string | undefined {
  return stderr.trim().split("\n").findLast((line) => line.trim() !== "") ??
    (stdout.trim().split("\n")[0] || undefined);
}

const BOUNDED: Readonly<Record<Bounding, string>> = {
  systemd: "bounded by systemd",
  v1: "bounded by control groups",
  none: "bounded process by process, and memory by a look each second: no control group can be made",
};

/** A runtime in one line for people: `podman 4.3.1, rootless, cgroups v2, runc`. */
export function describeRuntime(runtime: FoundRuntime): string {
  const { name, version, rootless, cgroups, oci_runtime, bounding, commands, works, notes } = runtime;
  const title = version === undefined ? name : `${name} ${version}`;
  if (!works) return `${title} does not work: ${notes[0] ?? "it gave no reason"}`;
  if (name === "deno") {
    const runs = commands === undefined ? "and no programs" : "and its commands in sandboxes of bubblewrap";
    return `${title}, embedded: runs agent_d alone, which uses no file itself, ${runs}`;
  }
  if (bounding !== undefined) return `${title}: runs programs of this machine, ${BOUNDED[bounding]}`;
  const kind = rootless === undefined ? [] : [rootless ? "rootless" : "as root"];
  return [title, ...kind, ...(cgroups ? [`cgroups ${cgroups}`] : []), ...(oci_runtime ? [oci_runtime] : [])].join(", ");
}

/** Hard limits of this process, which containers inherit; `unlimited` as Infinity. */
export async function resourceLimits(
  ask: AskProgram,
  places = PROGRAM_PATHS,
): Promise<Limits | undefined> {
  const path = findProgram("prlimit", places);
  if (path === undefined) return undefined;
  const said = await ask(path, ["--noheadings", "--raw", "--output", "RESOURCE,HARD", "--nofile", "--nproc"]);
  const limit = (name: string) => {
    const hard = new RegExp(`^\\s*${name}\\s+(\\d+|unlimited)\\s*$`, "m").exec(said.stdout)?.[1];
    if (hard === undefined) return undefined;
    return hard === "unlimited" ? Infinity : Number(hard);
  };
  const [open_files, processes] = [limit("NOFILE"), limit("NPROC")];
  return open_files === undefined || processes === undefined ? undefined : { open_files, processes };
}
