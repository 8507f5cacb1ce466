import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { launchFlags } from "../../cli/table/launch_flags.ts";
import { longTest } from "../support/long.ts";
import { startMinio } from "../support/minio.ts";
import { rehearse } from "../tools/publish.ts";
import { cacheWithNpm, packagesIn, type Ran, ROOT, run } from "./_publish_and_run.ts";
import { Registry } from "./_registry.ts";

/** The program as it is after `deno install`, with a home directory of its own. */
interface Installed {
  program: string;
  env: Record<string, string>;
  base: string;
  taskd(...words: string[]): Promise<Ran>;
}

/** Publishes to a registry on loopback what a plain `deno publish` ships, and installs the program from there. */
async function install(base: string, registry: Registry, cache: string): Promise<Installed> {
  const env = {
    JSR_URL: registry.url,
    HOME: `${base}/home`,
    TMPDIR: `${base}/tmp`,
    DENO_INSTALL_ROOT: `${base}/root`,
    DENO_DIR: cache,
  };
  await Promise.all([env.HOME, env.TMPDIR].map((path) => Deno.mkdir(path)));
  const options = { env, cwd: base };
  const words = ["publish", "--token", "none", "--no-provenance", "--no-check", "--allow-dirty"];
  const published = await run(Deno.execPath(), words, {
    env: { JSR_URL: registry.url },
    cwd: ROOT.pathname,
  });
  assertEquals(published.code, 0, published.stderr);
  const flags = ["--global", "--name", "taskd", ...launchFlags()];
  const installed = await run(Deno.execPath(), ["install", ...flags, "jsr:@taskd/taskd/cli"], options);
  assertEquals(installed.code, 0, installed.stderr);
  const program = `${base}/root/bin/taskd`;
  return { program, env, base, taskd: (...words) => run(program, words, options) };
}

/** Starts a daemon, and reads the first line that it prints. */
async function daemon({ program, env, base }: Installed, words: string[]) {
  const child = new Deno.Command(program, {
    args: words,
    env,
    cwd: base,
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  const log = new Response(child.stderr).text();
  const reader = child.stdout.pipeThrough(new TextDecoderStream()).getReader();
  const { value = "" } = await reader.read();
  return {
    first: value,
    async [Symbol.asyncDispose]() {
      child.kill("SIGTERM");
      await reader.cancel();
      assertEquals((await child.status).code, 0, await log);
    },
  };
}

/** Begins a conversation with `taskd mcp`; returns the name that it gives itself. */
async function initializeMcp({ program, env }: Installed): Promise<string> {
  const child = new Deno.Command(program, { args: ["mcp"], env, stdin: "piped", stdout: "piped", stderr: "piped" })
    .spawn();
  const writer = child.stdin.getWriter();
  const params = { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: { name: "test", version: "1" } };
  const request = { jsonrpc: "2.0", id: 1, method: "initialize", params };
  await writer.write(new TextEncoder().encode(`${JSON.stringify(request)}\n`));
  await writer.close();
  const { code, stdout, stderr } = await child.output();
  assertEquals(code, 0, new TextDecoder().decode(stderr));
  return JSON.parse(new TextDecoder().decode(stdout)).result.serverInfo.name;
}

longTest("the published package installs, and every part of the program runs from it", async (t) => {
  const base = await Deno.realPath(await Deno.makeTempDir({ prefix: "installed-" }));
  try {
    await using registry = await Registry.start(base);
    const installed = await install(base, registry, await cacheWithNpm(base));
    const { taskd } = installed;

    await t.step("a plain publish ships what the rehearsal lists, and nothing else", async () => {
      assertEquals(registry.files("@taskd/taskd"), (await rehearse(undefined, ["--no-check"])).files.sort());
    });

    await t.step("a program imports the library and both clients, with their types", async () => {
      const text = `import { BrokerClient, type Stage } from "jsr:@taskd/taskd/broker";
import { connect } from "jsr:@taskd/taskd/client";
import { hasCode } from "jsr:@taskd/taskd";
const broker = new BrokerClient({ socket: "/none.sock" });
const stages: Stage[] | string = await broker.tasks().then(({ tasks }) => tasks.map(({ stage }) => stage), codeOf);
console.log(stages, await connect("/none.sock").then(() => "", codeOf));
function codeOf(error: unknown): string {
  return hasCode(error, "broker_unreachable") ? "no broker" : hasCode(error, "daemon_unreachable") ? "no daemon" : "";
}
`;
      await Deno.writeTextFile(`${base}/user.ts`, text);
      const words = [
        "run",
        "--check",
        "--no-prompt",
        "--allow-read",
        "--allow-write",
        "--allow-net",
        "--allow-sys=uid",
        `${base}/user.ts`,
      ];
      const { code, stdout, stderr } = await run(Deno.execPath(), words, { env: installed.env, cwd: base });
      assertEquals([code, stdout], [0, "no broker no daemon\n"], stderr);
    });

    await t.step("version is the package's own", async () => {
      const { version } = JSON.parse(await Deno.readTextFile(new URL("deno.json", ROOT)));
      assertMatch((await taskd("version")).stdout, new RegExp(`^taskd ${version} `));
    });

    await t.step("demo runs the built-in agent and looks at its databases", async () => {
      const { code, stdout, stderr } = await taskd("demo", "--quick", "--json");
      assertEquals(code, 0, stdout + stderr);
      const { acknowledged, invoices, restored } = JSON.parse(stdout).facts;
      assertEquals([restored, invoices.after[0]], [acknowledged, 5997]);
    });

    await t.step("redteam finds the embedded sandbox closed", async () => {
      assertEquals((await taskd("init")).code, 0);
      await Deno.writeTextFile(`${base}/home/.taskd/config.yaml`, "runtime: deno\n", { mode: 0o600 });
      const { code, stdout, stderr } = await taskd("redteam", "--runtime", "deno", "--only", "sandbox", "--json");
      assertEquals(code, 0, stdout + stderr);
    });

    await t.step("start serves the pages with everything that they load", async () => {
      await using broker = await daemon(installed, ["start", "--json"]);
      const { ui_url } = JSON.parse(broker.first);
      const page = await fetch(ui_url);
      const shell = await page.text();
      assertStringIncludes(shell, "<!DOCTYPE html>");
      const assets = [...shell.matchAll(/(?:src|href)="(\/ui\/[^"]+\.(?:ts|css))"/g)].map((match) => match[1]!);
      assert(assets.length >= 2, shell);
      for (const asset of assets) {
        const { status, body } = await fetch(new URL(asset, ui_url));
        await body?.cancel();
        assertEquals(status, 200, asset);
      }
    });

    await t.step("serve opens a session", async () => {
      assertEquals((await taskd("create", "shop")).code, 0);
      await using serving = await daemon(installed, ["serve", "--json"]);
      assertMatch(serving.first, /^\{"ok":true/);
      const opened = await taskd("session", "open", "shop");
      assertEquals(opened.code, 0, opened.stderr);
    });

    await t.step("mcp answers an agent", async () => assertEquals(await initializeMcp(installed), "taskd"));
  } finally {
    await Deno.remove(base, { recursive: true });
  }
});

/** What the installed program may have fetched before a command needs more. */
const MAX_PACKAGES = 10;

longTest(
  "an installation with an empty cache fetches few packages, and commands what they need",
  async () => {
    const base = await Deno.realPath(await Deno.makeTempDir({ prefix: "installed-empty-" }));
    try {
      await using registry = await Registry.start(base);
      await using s3 = await startMinio();
      const installed = await install(base, registry, `${base}/deno-dir`);
      assertMatch((await installed.taskd("version")).stdout, /^taskd /);
      const early = packagesIn(installed.env.DENO_DIR!);
      assert(early.length <= MAX_PACKAGES, early.join(" "));
      // Once more with nothing: what the installation wrote down must not bring in more.
      await Deno.remove(installed.env.DENO_DIR!, { recursive: true });
      assertEquals((await installed.taskd("version")).code, 0);
      assert(packagesIn(installed.env.DENO_DIR!).length <= MAX_PACKAGES);

      assertEquals(await initializeMcp(installed), "taskd");
      assert(packagesIn(installed.env.DENO_DIR!).includes("@modelcontextprotocol/sdk"));
      Object.assign(installed.env, {
        BSTORE_S3_ENDPOINT: s3.endpoint,
        AWS_ACCESS_KEY_ID: s3.credentials.access_key_id,
        AWS_SECRET_ACCESS_KEY: s3.credentials.secret_access_key,
      });
      const created = await installed.taskd("create", "shop", "--store", `s3://${s3.bucket}/installed`);
      assertEquals(created.code, 0, created.stderr);
      assert(packagesIn(installed.env.DENO_DIR!).includes("@aws-sdk/client-s3"));
    } finally {
      await Deno.remove(base, { recursive: true });
    }
  },
);
