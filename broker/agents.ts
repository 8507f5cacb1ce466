/**
 * The agents a task can run, and what each command-line program needs in order to speak to the gateway and to nothing
 * else. One row per setting value; the label is accepted as a name too.
 *
 * Nothing here holds a vendor's key: an agent gets a token of its task.
 */

import { TaskdError } from "../lib/errors.ts";

export type Lane = "vendor_a" | "vendor_b" | "vendor_c" | "compat";

export const LANES: readonly Lane[] = ["vendor_a", "vendor_b", "vendor_c", "compat"];

const COMPANIES: Readonly<Record<Lane, string | undefined>> = {
  vendor_a: "Anthropic",
  vendor_b: "OpenAI",
  vendor_c: "Google",
  compat: undefined,
};

/** The lane of a name, or of its company's in any case: `vendor_a`, `anthropic`. */
export function laneNamed(name: string): Lane | undefined {
  return LANES.find((lane) => lane === name || COMPANIES[lane]?.toLowerCase() === name.toLowerCase());
}

/** A lane as people read it, with its company's name: `vendor_a (Anthropic)`. Data keeps the lane alone. */
export function laneText(lane: Lane): string {
  const company = COMPANIES[lane];
  return company === undefined ? lane : `${lane} (${company})`;
}

export type AgentName = "agent_a" | "agent_b" | "agent_c" | "agent_d";

export interface LaunchOptions {
  /** `http://host:port` of the gateway, without a path. */
  gateway_url: string;
  token: string;
  /** Model id; undefined when the agent picks its own. */
  model?: string;
  instruction: string;
  /** A writable directory of the agent's own, absolute, outside the work tree. */
  home: string;
}

export interface Launch {
  command: string[];
  env: Record<string, string>;
  /** Files to write before the start; paths are below `home`. */
  files: { path: string; content: string }[];
}

export interface Agent {
  name: AgentName;
  /** Name of its program, also accepted where an agent is named. */
  label: string;
  lane: Lane;
  package: string;
  /** Whether the setting `default_model` applies to it. */
  takes_default_model: boolean;
  launch(options: LaunchOptions): Launch;
}

export const AGENTS: readonly Agent[] = [
  {
    name: "agent_a",
    label: "claude",
    lane: "vendor_a",
    package: "@anthropic-ai/claude-code",
    takes_default_model: true,
    launch: ({ gateway_url, token, model, instruction, home }) => ({
      command: [
        "claude",
        "--print",
        "--output-format",
        "stream-json",
        "--verbose",
        // The sandbox is what restrains it; web search runs at the vendor and the gateway refuses it.
        "--dangerously-skip-permissions",
        "--disallowedTools",
        "WebSearch",
        ...(model === undefined ? [] : ["--model", model]),
        "--",
        instruction,
      ],
      env: {
        HOME: home,
        ANTHROPIC_BASE_URL: gateway_url,
        // As a bearer: a value in ANTHROPIC_API_KEY would ask a person for approval first.
        ANTHROPIC_AUTH_TOKEN: token,
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
        DISABLE_AUTOUPDATER: "1",
        IS_SANDBOX: "1",
      },
      files: [],
    }),
  },
  {
    name: "agent_b",
    label: "codex",
    lane: "vendor_b",
    package: "@openai/codex",
    takes_default_model: true,
    launch: ({ gateway_url, token, model, instruction, home }) => ({
      command: [
        "codex",
        "exec",
        "--json",
        "--skip-git-repo-check",
        "--dangerously-bypass-approvals-and-sandbox",
        ...(model === undefined ? [] : ["--model", model]),
        "--",
        instruction,
      ],
      env: { HOME: home, CODEX_HOME: `${home}/.codex`, TASKD_TOKEN: token },
      // It ignores OPENAI_BASE_URL; only a provider of its own leads it elsewhere.
      files: [{
        path: ".codex/config.toml",
        content: `model_provider = "taskd"
web_search = "disabled"

[model_providers.taskd]
name = "taskd"
base_url = "${gateway_url}/v1"
env_key = "TASKD_TOKEN"
wire_api = "responses"
`,
      }],
    }),
  },
  {
    name: "agent_c",
    label: "gemini",
    lane: "vendor_c",
    package: "@google/gemini-cli",
    takes_default_model: false,
    launch: ({ gateway_url, token, model, instruction, home }) => ({
      command: [
        "gemini",
        "--yolo",
        ...(model === undefined ? [] : ["--model", model]),
        // In one word: an instruction may begin with a dash.
        `--prompt=${instruction}`,
      ],
      env: {
        HOME: home,
        GOOGLE_GEMINI_BASE_URL: gateway_url,
        GEMINI_API_KEY: token,
        // Without it, it refuses to run anywhere but in folders that a person has trusted.
        GEMINI_CLI_TRUST_WORKSPACE: "true",
      },
      files: [{
        path: ".gemini/settings.json",
        content: `${
          JSON.stringify({
            security: { auth: { selectedType: "gemini-api-key" } },
            privacy: { usageStatisticsEnabled: false },
            general: { disableAutoUpdate: true },
            tools: { exclude: ["google_web_search", "web_fetch"] },
          })
        }\n`,
      }],
    }),
  },
  {
    name: "agent_d",
    label: "opencode",
    lane: "compat",
    package: "opencode-ai",
    takes_default_model: false,
    launch: ({ gateway_url, token, model, instruction, home }) => ({
      command: ["opencode", "run", ...(model === undefined ? [] : ["--model", `taskd/${model}`]), "--", instruction],
      env: { HOME: home, TASKD_TOKEN: token },
      files: [{
        path: ".config/opencode/opencode.json",
        content: `${
          JSON.stringify({
            autoupdate: false,
            share: "disabled",
            provider: {
              taskd: {
                npm: "@ai-sdk/openai-compatible",
                name: "taskd",
                options: { baseURL: `${gateway_url}/v1`, apiKey: "{env:TASKD_TOKEN}" },
                models: model === undefined ? {} : { [model]: {} },
              },
            },
          })
        }\n`,
      }],
    }),
  },
];

/** The agent of a setting value or label; throws `usage` and lists them. */
export function agentOf(name: string): Agent {
  const found = AGENTS.find((agent) => agent.name === name || agent.label === name);
  if (found) return found;
  throw new TaskdError("usage", `There is no agent ${JSON.stringify(name.slice(0, 64))}`, {
    hint: `Use one of ${AGENTS.map((agent) => `${agent.name} (${agent.label})`).join(", ")}`,
  });
}
