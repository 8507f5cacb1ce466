/**
 * A whole broker whose agents are shell scripts and whose vendors are one server that keeps what it was asked: for what
 * the settings come to in a task.
 */

import { type BenchOptions, BrokerBench } from "../engine/bench.ts";
import { ProcessRuntime } from "../engine/process_runtime.ts";
import { writeProgram } from "../../support/programs.ts";

const CURL = "/usr/bin/curl";

/** Defines a test whose agents ask by curl; without it the test is ignored, with the reason in its name. */
export function programTest(
  name: string,
  run: () => Promise<void>,
  define: (definition: Deno.TestDefinition) => void = Deno.test,
): void {
  let why = "";
  try {
    Deno.statSync(CURL);
  } catch {
    why = " (ignored: curl is not installed)";
  }
  define({ name: `${name}${why}`, ignore: why !== "", fn: run });
}

/** One request that came to a vendor. */
export interface Asked {
  path: string;
  /** Names of the headers by the secret that they carried, without `Bearer`. */
  secrets: Record<string, string>;
}

/** The operator's keys. */
export const KEYS = {
  VENDORA_API_KEY: "sk-key-of-vendor-a",
  VENDORB_API_KEY: "sk-key-of-vendor-b",
  VENDORC_API_KEY: "sk-key-of-vendor-c",
};

const BODY = `'{"model":"m-1","max_tokens":1,"messages":[]}'`;

/** How each agent's program asks its vendor once through the gateway, and writes the answer's status into `status.txt`. */
const ASK: Record<string, string> = {
  claude: `ask "$ANTHROPIC_BASE_URL/v1/messages" "authorization: Bearer $ANTHROPIC_AUTH_TOKEN" ${BODY}`,
  codex: `ask "$(sed -n 's/^base_url = "\\(.*\\)"/\\1/p' "$HOME/.codex/config.toml")/responses" \
"authorization: Bearer $TASKD_TOKEN" '{"model":"gpt-5","input":"hi"}'`,
  gemini: `ask "$GOOGLE_GEMINI_BASE_URL/v1beta/models/gemini-2.5-pro:generateContent" \
"x-goog-api-key: $GEMINI_API_KEY" '{"contents":[]}'`,
};

/** A script that has `CURL` and `ask <url> <header> <body>` at hand, and leaves its words and a change behind. */
function script(text: string): string {
  return `#!/bin/bash
CURL=${CURL}
printf '%s\\n' "$@" > words.txt
ask() {
  $CURL --silent --output /dev/null --write-out '%{http_code}\\n' -H "$2" -H 'content-type: application/json' -d "$3" "$1"
}
${text}
`;
}

/** What {@linkcode ProgramBench.start} takes. */
export interface ProgramOptions {
  /** The whole of config.yaml but where the socket and the vendors are; `REPO` stands for the repository. */
  config?: string;
  env?: Record<string, string>;
  /** Scripts in place of asking once. */
  programs?: Record<string, string>;
  /** Answers a vendor's request. */
  answer?: () => Promise<Response> | Response;
  overrides?: BenchOptions["overrides"];
  /** Files of the repository. */
  files?: NonNullable<BenchOptions["files"]>;
}

/** The broker, its vendors and its agents. */
export class ProgramBench implements AsyncDisposable {
  readonly bench: BrokerBench;
  readonly asked: Asked[];
  readonly #vendor: Deno.HttpServer<Deno.NetAddr>;
  readonly #folder: string;

  private constructor(bench: BrokerBench, asked: Asked[], vendor: Deno.HttpServer<Deno.NetAddr>, folder: string) {
    this.bench = bench;
    this.asked = asked;
    this.#vendor = vendor;
    this.#folder = folder;
  }

  /** Starts all of it. */
  static async start(options: ProgramOptions = {}): Promise<ProgramBench> {
    const folder = await Deno.makeTempDir();
    const asked: Asked[] = [];
    const answer = options.answer ?? (() => Response.json({}));
    const vendor = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, async (request) => {
      await request.text();
      const secrets = Object.fromEntries(
        [...request.headers].map(([name, value]) => [value.replace(/^Bearer /, ""), name]),
      );
      asked.push({ path: new URL(request.url).pathname, secrets });
      return await answer();
    });
    const programs = { ...ASK, opencode: "", ...options.programs };
    for (const [name, text] of Object.entries(programs)) {
      const asks = text === ASK[name] && text !== "" ? `${text} > status.txt` : `${text}\ndate > made.txt`;
      await writeProgram(`${folder}/${name}`, script(asks));
    }
    const bench = await BrokerBench.prepare({
      env: options.env ?? KEYS,
      overrides: { runtime: new ProcessRuntime(folder), ...options.overrides },
      ...(options.files === undefined ? {} : { files: options.files }),
    });
    const url = `http://127.0.0.1:${vendor.addr.port}`;
    await Deno.writeTextFile(
      `${bench.home}/.taskd/config.yaml`,
      `broker:
  socket: ${bench.root}/s/taskd.sock
upstreams:
  vendor_a: ${url}
  vendor_b: ${url}
  vendor_c: ${url}
${(options.config ?? "").replaceAll("REPO", `file://${bench.git.origin}`)}`,
      { mode: 0o600 },
    );
    const self = new ProgramBench(bench, asked, vendor, folder);
    try {
      await bench.serve();
    } catch (error) {
      await self[Symbol.asyncDispose]();
      throw error;
    }
    return self;
  }

  /** A file that a task has added, as its diff shows it. */
  async added(id: string, path: string): Promise<string[]> {
    const diff = new TextDecoder().decode(await this.bench.engine.diff(id));
    const part = diff.split(/^diff --git /m).find((text) => text.includes(`b/${path}\n`)) ?? "";
    return part.split("\n").filter((line) => /^\+(?!\+\+)/.test(line)).map((line) => line.slice(1));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.bench[Symbol.asyncDispose]();
    await this.#vendor.shutdown();
    await Deno.remove(this.#folder, { recursive: true });
  }
}
