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

export function parseConfig(line: string): AgentConfig {
  const value: unknown = JSON.parse(line);
  if (typeof value !== "object" || value === null) throw new Error("the configuration is not an object");
  const fields = value as Record<string, unknown>;
  const text = (name: keyof AgentConfig) => {
    const field = fields[name];
    if (typeof field !== "string" || field === "") throw new Error(`the configuration lacks ${name}`);
    return field;
  };
  const count = (name: keyof AgentConfig) => {
    const field = fields[name];
    if (typeof field !== "number" || !Number.isSafeInteger(field) || field < 0) {
      throw new Error(`the configuration's ${name} is not a count`);
    }
    return field;
  };
  return {
    gateway_url: text("gateway_url"),
    token: text("token"),
    model: text("model"),
    instruction: text("instruction"),
    work_dir: text("work_dir"),
    max_turns: count("max_turns"),
    links: pairsIn(fields, "links", "path", "target").map(([path, target]) => ({ path, target })),
    databases: pairsIn(fields, "databases", "name", "path").map(([name, path]) => ({ name, path })),
  };
}

function pairsIn(fields: Record<string, unknown>, list: string, one: string, other: string): [string, string][] {
  const value = fields[list] ?? [];
  if (!Array.isArray(value)) throw new Error(`the configuration's ${list} are not a list`);
  return value.map((entry: unknown) => {
    const { [one]: first, [other]: second } = typeof entry === "object" && entry !== null
      ? entry as Record<string, unknown>
      : {};
    if (typeof first === "string" && typeof second === "string") return [first, second];
    throw new Error(`the configuration's ${list} lack a ${one} or a ${other}`);
  });
}
