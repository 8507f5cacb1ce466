import { assertEquals, assertMatch } from "@std/assert";
import config from "../../deno.json" with { type: "json" };
import { launchFlags } from "../../cli/table/launch_flags.ts";
import { startMinio } from "../support/minio.ts";

const ROOT = new URL("../../", import.meta.url);

/** A registry's stand-in: the project's files over HTTP. */
function serveProject(): Deno.HttpServer<Deno.NetAddr> {
  return Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, async (request) => {
    const path = new URL(request.url).pathname;
    const type = path.endsWith(".json") ? "application/json" : "application/typescript";
    try {
      return new Response(await Deno.readFile(new URL(`.${path}`, ROOT)), { headers: { "content-type": type } });
    } catch {
      return new Response(null, { status: 404 });
    }
  });
}

/** The import map of the project, with its stand-ins for the standard library by URL. */
async function importsAt(origin: string): Promise<Record<string, string>> {
  const others = Object.entries(config.imports).filter(([name]) => !name.startsWith("@std/"));
  const imports: Record<string, string> = Object.fromEntries(others);
  for (const link of config.links) {
    const { name, exports } = JSON.parse(await Deno.readTextFile(new URL(`${link}/deno.json`, ROOT)));
    for (const [subpath, file] of Object.entries<string>(exports)) {
      imports[name + subpath.slice(1)] = new URL(`${link}/${file}`, `${origin}/`).href;
    }
  }
  return imports;
}

/** Where this runtime keeps npm packages, so that a fresh cache needs no network. */
async function npmCache(): Promise<string> {
  const { stdout } = await new Deno.Command(Deno.execPath(), { args: ["info", "--json"] }).output();
  return JSON.parse(new TextDecoder().decode(stdout)).npmCache;
}

async function run(command: string, args: string[], env: Record<string, string>) {
  const result = await new Deno.Command(command, { args, env: { NO_COLOR: "1", ...env }, cwd: "/" }).output();
  const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
  return { code: result.code, stdout: text(result.stdout), stderr: text(result.stderr) };
}

Deno.test("the installed program has all its modules, and needs its registry no more", async () => {
  const base = await Deno.makeTempDir({ prefix: "install-" });
  const env = { DENO_DIR: `${base}/cache`, BSTORE_STORE: `${base}/store` };
  try {
    await Deno.mkdir(env.DENO_DIR);
    await run("/usr/bin/cp", ["-r", await npmCache(), `${env.DENO_DIR}/npm`], env);
    const server = serveProject();
    const origin = `http://127.0.0.1:${server.addr.port}`;
    await Deno.writeTextFile(`${base}/config.json`, JSON.stringify({ imports: await importsAt(origin) }));
    const place = ["--global", "--root", base, "--name", "taskd", "--config", `${base}/config.json`];
    const flags = [...launchFlags(), `--allow-import=127.0.0.1:${server.addr.port}`];
    const installed = await run(Deno.execPath(), ["install", ...place, ...flags, `${origin}/cli/main.ts`], env);
    await server.shutdown();
    assertEquals(installed.code, 0, installed.stderr);

    const taskd = (...words: string[]) => run(`${base}/bin/taskd`, words, env);
    assertMatch((await taskd("version")).stdout, /^taskd dev /);
    assertMatch((await taskd("frok")).stderr, /Did you mean fork\?/);
    assertMatch((await taskd("create", "shop")).stdout, /^Created shop@main/);
    assertMatch((await taskd("branches")).stdout, /shop@main/);
    assertEquals((await taskd("verify", "--all")).code, 0);

    await serves(`${base}/bin/taskd`, env);

    await using s3_server = await startMinio();
    const { endpoint, bucket, credentials } = s3_server;
    const s3 = {
      ...env,
      HOME: base,
      BSTORE_STORE: `s3://${bucket}/installed`,
      BSTORE_S3_ENDPOINT: endpoint,
      AWS_ACCESS_KEY_ID: credentials.access_key_id,
      AWS_SECRET_ACCESS_KEY: credentials.secret_access_key,
    };
    assertMatch((await run(`${base}/bin/taskd`, ["create", "shop"], s3)).stdout, /^Created shop@main/);
    await serves(`${base}/bin/taskd`, s3);
  } finally {
    await Deno.remove(base, { recursive: true });
  }
});

/** Starts a daemon, opens a session of `shop` in it, and stops it. */
async function serves(taskd: string, env: Record<string, string>): Promise<void> {
  const command = new Deno.Command(taskd, { args: ["serve", "--json"], env, stdout: "piped", stderr: "null" });
  const daemon = command.spawn();
  const reader = daemon.stdout.getReader();
  const { value } = await reader.read();
  assertMatch(new TextDecoder().decode(value), /^\{"ok":true/);
  assertEquals((await run(taskd, ["session", "open", "shop"], env)).code, 0);
  daemon.kill("SIGTERM");
  assertEquals((await daemon.status).code, 0);
  await reader.cancel();
}
