/**
 * Bubblewrap for tests: whether it is there, and runtimes of their own.
 */

import { existsSync } from "@std/fs/exists";
import { BubblewrapRuntime } from "../../broker/sandbox/bubblewrap/bubblewrap_runtime.ts";
import type { Bounding } from "../../broker/sandbox/bubblewrap/control_groups.ts";
import { EMPTY_VIEW, type HostView } from "../../broker/sandbox/bubblewrap/host_view.ts";
import { listenForSandboxes } from "../../broker/sandbox/bubblewrap/sandbox_sockets.ts";
import type { SandboxSockets } from "../../broker/sandbox/runtime.ts";
import { type Clock, randomHex, systemClock, systemRandom } from "../../lib/clock.ts";

/** Where bwrap is. */
export const BWRAP = "/usr/bin/bwrap";

/** A test of bubblewrap is ignored where it cannot be, with the reason in its name; CI counts that as a failure. */
export const WITHOUT_BUBBLEWRAP: string | undefined = [BWRAP, "/usr/bin/python3"].find((path) => !existsSync(path))
  ?.concat(" is not installed");

/** Defines a test that needs bubblewrap. */
export function bubblewrapTest(
  name: string,
  run: (t: Deno.TestContext) => Promise<void>,
  define: (definition: Deno.TestDefinition) => void = Deno.test,
): void {
  const title = WITHOUT_BUBBLEWRAP === undefined ? name : `${name} (ignored: ${WITHOUT_BUBBLEWRAP})`;
  define({ name: title, ignore: WITHOUT_BUBBLEWRAP !== undefined, fn: run });
}

/** A runtime of a test, and what it listens with. */
export interface TestBubblewrap extends AsyncDisposable {
  runtime: BubblewrapRuntime;
  owner: string;
  run_dir: string;
  sockets: SandboxSockets;
  /** What a workload of containers names; of no use here. */
  network: string;
  image: string;
}

/** Greets each connection with a word, on both sockets; where it is deaf, it accepts none. */
export async function testBubblewrap(
  { view = EMPTY_VIEW, bounding = "none", deno_path = Deno.execPath(), clock = systemClock, deaf = false }: {
    view?: HostView;
    bounding?: Bounding;
    deno_path?: string;
    clock?: Clock;
    deaf?: boolean;
  } = {},
): Promise<TestBubblewrap> {
  const owner = randomHex(systemRandom, 16);
  const run_dir = await Deno.makeTempDir();
  const runtime = new BubblewrapRuntime({
    program: BWRAP,
    run_dir,
    view: { ...EMPTY_VIEW, ...view },
    bounding,
    deno_path,
    owner,
    env: (name) => Deno.env.get(name),
    clock,
  });
  const { listen } = await runtime.prepare();
  const sockets = listen.sockets!;
  const greeters = await Promise.all([
    greeter(sockets.gateway, sockets.owner, deaf ? undefined : "the gateway"),
    greeter(sockets.proxy, sockets.owner, deaf ? undefined : "the proxy"),
  ]);
  return {
    runtime,
    owner,
    run_dir,
    sockets,
    network: "none",
    image: "none",
    async [Symbol.asyncDispose]() {
      await runtime.sweep(new Set());
      for (const end of greeters) await end();
      await runtime.close();
      await Deno.remove(run_dir, { recursive: true });
    },
  };
}

async function greeter(
  path: string,
  owner: number | undefined,
  word: string | undefined,
): Promise<() => Promise<void>> {
  const listener = await listenForSandboxes(path, owner);
  if (word === undefined) return () => Promise.resolve(void listener.close());
  const greet = async () => {
    for (;;) {
      let conn: Deno.Conn;
      try {
        conn = await listener.accept();
      } catch {
        return;
      }
      await conn.write(new TextEncoder().encode(word)).catch(() => {});
      conn.close();
    }
  };
  const greeting = greet();
  return async () => {
    listener.close();
    await greeting;
  };
}

/** In the place of opencode, which has the same arguments and variables. */
const AGENT = `#!/usr/bin/python3
import json, os, sys, urllib.request
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
config = json.load(open(os.path.expanduser("~/.config/opencode/opencode.json")))
url = config["provider"]["taskd"]["options"]["baseURL"] + "/chat/completions"
body = {"model": "test-model", "stream": True, "messages": [{"role": "user", "content": sys.argv[-1]}]}
request = urllib.request.Request(url, json.dumps(body).encode(), {
    "authorization": "Bearer " + os.environ["TASKD_TOKEN"], "content-type": "application/json"})
answer = opener.open(request, timeout=60).read().decode()
try:
    urllib.request.urlopen("http://not-listed.example/", timeout=60)
    refused = "reached"
except urllib.error.HTTPError as error:
    refused = str(error.code)
open("hello.txt", "w").write("hello\\n")
print(json.dumps({"url": url, "answered": "hello.txt" in answer, "refused": refused, "proxy": os.environ["HTTP_PROXY"][-15:],
                  "home": os.listdir(os.path.expanduser("~")), "seen": sorted(os.listdir("/"))}))
`;

/** A folder of PATH with the agent; nothing of /tmp is shown to sandboxes. */
export async function withAgent(work: (folder: string) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir({ dir: "/var/tmp" });
  try {
    await Deno.mkdir(`${folder}/bin`);
    await Deno.writeTextFile(`${folder}/bin/opencode`, AGENT, { mode: 0o755 });
    await Deno.chmod(folder, 0o755);
    await work(folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}
