/**
 * What runs in a task's sandbox: the built-in agent where the runtime is the embedded one, else the agent's own program
 * in its container, with a token of the task and its egress, and no one's key.
 */

import { dirname } from "@std/path/dirname";
import { TaskdError } from "../../lib/errors.ts";
import { withFileError, writeFileAtomic } from "../../lib/fs.ts";
import { DATABASES_MOUNT, fileOf, variableOf } from "../databases/requested_databases.ts";
import type { CommandWorkload, Container, Workload } from "../sandbox/runtime.ts";
import type { TaskOrder, TaskRecord } from "../task/schema.ts";
import type { TaskPlan } from "./task_plan.ts";
import type { EngineDeps } from "./engine_deps.ts";
import type { StagePaths } from "./task_paths.ts";
import type { Settings } from "../settings/settings.ts";

const AGENT_HOME = "/home/agent";
/** Processes and threads of a container: compilers and test runners are many. */
const MAX_PIDS = 1_024;

export interface WorkloadOf {
  plan: TaskPlan;
  record: TaskRecord;
  paths: StagePaths;
  token: string;
  proxy_url: string;
  mounts: CommandWorkload["mounts"];
  /** Variables beside the agent's own, which go before them. */
  env: Readonly<Record<string, string>>;
  databases: readonly string[];
}

/**
 * Makes the workload; for a container, the agent's files are written into its home.
 *
 * @throws {TaskdError} What keeps the home from being written.
 */
export async function sandboxWorkload(
  { runtime, gateway_url, resolved }: Pick<EngineDeps, "runtime" | "gateway_url" | "resolved">,
  { plan, record, paths, token, proxy_url, mounts, env, databases }: WorkloadOf,
): Promise<Workload> {
  const { model, agent } = plan;
  const { instruction } = record;
  if (runtime.name === "deno") {
    if (model === undefined) throw new TaskdError("internal", "A built-in agent has no model");
    const files = databases.map((name) => ({ name, file: fileOf(name) }));
    return {
      kind: "built_in_agent",
      gateway_url,
      token,
      model,
      instruction,
      ...(files.length === 0 ? {} : { databases: { directory: paths.databases_dir, files } }),
    };
  }
  const launch = agent.launch({
    gateway_url,
    token,
    instruction: withDatabases(instruction, databases),
    home: AGENT_HOME,
    ...(model === undefined ? {} : { model }),
  });
  await writeHome(paths.home_dir, launch.files);
  return {
    kind: "command",
    ...containerOf(record, resolved.settings),
    command: launch.command,
    env: { ...env, ...proxyEnv(proxy_url, gateway_url), ...databasesEnv(databases), ...launch.env },
    mounts: [
      { source: paths.home_dir, target: AGENT_HOME, writable: true },
      ...(databases.length === 0 ? [] : [{ source: paths.databases_dir, target: DATABASES_MOUNT, writable: true }]),
      ...mounts,
    ],
    max_pids: MAX_PIDS,
  };
}

export function containerOf(
  { platform }: TaskOrder,
  { sandbox_image, network }: Pick<Settings, "sandbox_image" | "network">,
): Container {
  return { image: sandbox_image, network, ...(platform === undefined ? {} : { platform }) };
}

function databasesEnv(databases: readonly string[]): Record<string, string> {
  return Object.fromEntries(databases.map((db) => [variableOf(db), `${DATABASES_MOUNT}/${fileOf(db)}`]));
}

/** The instruction, with what no agent would look for. */
function withDatabases(instruction: string, databases: readonly string[]): string {
  if (databases.length === 0) return instruction;
  const files = databases.map((db) => `- ${db}: ${DATABASES_MOUNT}/${fileOf(db)} (also in $${variableOf(db)})`);
  return [
    instruction,
    "",
    "You have your own copies of these SQLite databases. What you change there is shown to a person and kept when they",
    "approve it; close them when you are done, and leave no transaction open.",
    ...files,
  ].join("\n");
}

/** The egress proxy in every spelling that programs know; the gateway is reached without it. */
function proxyEnv(proxy_url: string, gateway_url: string): Record<string, string> {
  const direct = new URL(gateway_url).hostname;
  const env: Record<string, string> = {};
  for (const name of ["HTTP_PROXY", "HTTPS_PROXY"]) env[name] = env[name.toLowerCase()] = proxy_url;
  for (const name of ["NO_PROXY", "no_proxy"]) env[name] = direct;
  return env;
}

async function writeHome(home_dir: string, files: readonly { path: string; content: string }[]): Promise<void> {
  await withFileError(`Cannot prepare ${home_dir}`, async () => {
    await Deno.mkdir(home_dir, { recursive: true, mode: 0o700 });
    for (const { path, content } of files) {
      const full = `${home_dir}/${path}`;
      await Deno.mkdir(dirname(full), { recursive: true, mode: 0o700 });
      await writeFileAtomic(full, new TextEncoder().encode(content), 0o600);
    }
  });
}
