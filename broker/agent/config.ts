/**
 * The configurations of the built-in agent's two processes: one line of JSON on the standard input of each, so that the
 * token is neither in an environment nor in an argument. The input then stays open; its end means that the broker is
 * gone.
 *
 * Everything these processes import lies in this folder or in lib/: they run without packages, and without a network but
 * the gateway's.
 */

/** Of the process that speaks with the model: nothing in it is of the host. */
export interface AgentConfig {
  /** `http://host:port` of the gateway, without a path. */
  gateway_url: string;
  token: string;
  model: string;
  system_prompt: string;
  instruction: string;
  /** The tools as the model is offered them. */
  tools: unknown[];
  max_turns: number;
}

export interface AgentDatabase {
  name: string;
  /** Absolute. */
  path: string;
}

/** A symbolic link of the work tree, which is put aside while the agent works. */
export interface AgentLink {
  /** Relative to the work folder. */
  path: string;
  target: string;
}

/** Of the process that has the task's files. */
export interface FilesConfig {
  /** Absolute, without links. */
  work_dir: string;
  /** All of them: they are listed as links, and nothing is written in their place. */
  links: AgentLink[];
  /** Copies of branches of databases. */
  databases: AgentDatabase[];
  /** Whether the broker runs commands for it, in a sandbox of each. */
  runs: boolean;
}

export const DEFAULT_MAX_TURNS = 100;

export function encodeConfig(config: AgentConfig | FilesConfig): string {
  return `${JSON.stringify(config)}\n`;
}

/** What {@linkcode encodeConfig} wrote as the first line: the broker that sent it is this very program. */
export async function readConfig<Config extends AgentConfig | FilesConfig>(
  lines: AsyncGenerator<string>,
): Promise<Config> {
  const { value, done } = await lines.next();
  if (done) throw new Error("the standard input ended before the configuration");
  return JSON.parse(value);
}
