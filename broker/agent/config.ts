/**
 * The configuration of the built-in agent: one line of JSON on its standard input, so that the token is neither
 * in an environment nor in an argument. The input then stays open; its end means that the broker is gone.
 *
 * Everything the agent's process imports lies in this folder or in lib/: it runs without packages and without a network
 * but the gateway's.
 */

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

export interface AgentConfig {
  /** `http://host:port` of the gateway, without a path. */
  gateway_url: string;
  token: string;
  model: string;
  instruction: string;
  work_dir: string;
  max_turns: number;
  /** All of them: the agent sees them as links, and writes nothing in their place. */
  links: AgentLink[];
  /** Copies of branches of databases; none when absent. */
  databases?: AgentDatabase[];
}

/** The longest line of configuration, in UTF-16 units. */
export const MAX_CONFIG_LENGTH = 64 << 20;

export const DEFAULT_MAX_TURNS = 100;

export function encodeConfig(config: AgentConfig): string {
  return `${JSON.stringify(config)}\n`;
}

/** What {@linkcode encodeConfig} wrote: the broker that sent it is this very program. */
export function parseConfig(line: string): AgentConfig {
  return JSON.parse(line);
}
