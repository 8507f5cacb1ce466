/**
 * A whole broker for a case: `taskd start` in a home of its own, a bare repository, and a model that answers from a script.
 */

import { join } from "@std/path/join";
import type { BrokerClient } from "../../../broker/client/client.ts";
import { BrokerHome } from "../../../cli/demo/broker_home.ts";
import type { RuntimeName } from "../../../broker/settings/settings.ts";
import { GitBench } from "../../broker/git/bench.ts";
import { type Asked, ModelServer, type Scripted } from "../../support/model_server.ts";
import type { Place } from "../file_systems.ts";
import { TASKD_ENTRY } from "../process.ts";

/** Of the model, as the broker holds it. */
const KEY = "sk-bench-key-0123456789";

/** What a case works with. */
export interface WholeBroker extends AsyncDisposable {
  client: BrokerClient;
  git: GitBench;
  /** Of its containers; it stays until it is removed. */
  network: string;
  /** Resolves with the moment of the next request that the model gets, as `performance.now()` has it. */
  asked(): Promise<number>;
  /** Waits until a task is at the gate; throws when it ends before. */
  reachesGate(id: string): Promise<void>;
}

/** Starts one; `config` are more lines of config.yaml, `path` a folder that PATH begins with. */
export async function wholeBroker(
  place: Place,
  runtime: RuntimeName,
  { config = "", path }: { config?: string; path?: string } = {},
): Promise<WholeBroker> {
  const { signal } = new AbortController();
  await using stack = new AsyncDisposableStack();
  let next = Promise.withResolvers<number>();
  const model = stack.use(
    new ModelServer([(asked) => {
      next.resolve(performance.now());
      return oneChange(asked);
    }]),
  );
  const git = stack.use(await GitBench.start());
  const dir = join(place.dir, `broker-${runtime}`);
  await Deno.mkdir(dir, { mode: 0o700 });
  const host = { home: Deno.env.get("HOME") ?? "/", env: (name: string) => envOf(name, path) };
  const home = await BrokerHome.make({
    dir,
    host,
    runtime,
    model_url: model.url,
    api_key: KEY,
    entry: TASKD_ENTRY,
    signal,
  });
  // No task of a benchmark has a database.
  const store = `branch_store: { socket: ${JSON.stringify(join(dir, "none.sock"))} }\n`;
  await Deno.writeTextFile(join(home.taskd, "config.yaml"), store + config, { append: true });
  const process = stack.use(await home.start());
  const { client } = process;
  const parts = stack.move();
  return {
    client,
    git,
    network: home.network,
    asked() {
      next = Promise.withResolvers();
      return next.promise;
    },
    async reachesGate(id) {
      for await (const event of client.events(id)) {
        if (event.event === "stage" && event.data.stage === "awaiting_approval") return;
        if (event.event === "result") {
          throw new Error(`task ${id} ended as ${event.data.outcome}: ${event.data.reason}`);
        }
      }
    },
    [Symbol.asyncDispose]: () => parts.disposeAsync(),
  };
}

function envOf(name: string, path: string | undefined): string | undefined {
  const value = Deno.env.get(name);
  return name === "PATH" && path !== undefined ? `${path}:${value}` : value;
}

/** Writes one file, then ends. */
function oneChange({ body }: Asked): Scripted {
  const wrote = body.messages.some(({ role }) => role === "tool");
  return {
    calls: [wrote ? ["finish", { summary: "done" }] : ["write", { path: "hello.txt", content: "hello\n" }]],
  };
}
