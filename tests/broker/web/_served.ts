/**
 * The pages' broker in a process of its own, which a test may freeze or kill: a task waits at its gate there. Prints the
 * address of the pages and the task's id, then `approve` when it is asked to approve. With the argument `hold` an approval
 * never comes to an end.
 */

import { BrokerClient } from "../../../broker/client/client.ts";
import { serveHttp } from "../../../broker/http/serve.ts";
import { TaskStore } from "../../../broker/task/task_store.ts";
import { webResponse } from "../../../broker/web/web.ts";
import { ORDINARY } from "./_diffs.ts";
import { PagesEngine } from "./_pages.ts";

class ServedEngine extends PagesEngine {
  override async approve(...asked: Parameters<PagesEngine["approve"]>): Promise<void> {
    console.log("approve");
    if (Deno.args[1] === "hold") await new Promise(() => {});
    await super.approve(...asked);
  }
}

const root = Deno.args[0]!;
const engine = new ServedEngine(await TaskStore.open(`${root}/audit`));
const socket = `${root}/run/taskd.sock`;
await serveHttp({ engine, socket, tokens: `${root}/api-tokens.json`, web: webResponse, log: () => {} });
const id = await engine.gate({ diff: ORDINARY });
console.log(JSON.stringify({ address: await new BrokerClient({ socket }).uiUrl(), id }));
