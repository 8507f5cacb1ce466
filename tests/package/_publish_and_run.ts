/**
 * What the tests of the package share: files over HTTP, a cache of the runtime's own and what is in it, and programs.
 */

/** The project's root. */
export const ROOT: URL = new URL("../../", import.meta.url);

const TYPES: Readonly<Record<string, string>> = {
  ts: "application/typescript",
  js: "text/javascript",
  json: "application/json",
  css: "text/css",
  html: "text/html",
  md: "text/markdown",
};

/** Serves what `read` answers for a path, which begins with a slash; undefined is not found. `api` is asked first. */
export function serveFiles(
  read: (path: string) => Promise<Uint8Array<ArrayBuffer> | undefined>,
  api?: (request: Request) => Promise<Response | undefined>,
): Deno.HttpServer<Deno.NetAddr> {
  return Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, async (request) => {
    const answer = await api?.(request);
    if (answer !== undefined) return answer;
    const path = decodeURIComponent(new URL(request.url).pathname);
    const body = await read(path);
    if (body === undefined) return new Response(null, { status: 404 });
    return new Response(body, { headers: { "content-type": TYPES[path.split(".").at(-1)!] ?? "text/plain" } });
  });
}

/** An empty cache of the runtime in `base` that has the npm packages which this machine has: tests need no network. */
export async function cacheWithNpm(base: string): Promise<string> {
  const { stdout } = await new Deno.Command(Deno.execPath(), { args: ["info", "--json"] }).output();
  const { npmCache } = JSON.parse(new TextDecoder().decode(stdout)) as { npmCache: string };
  const cache = `${base}/deno-dir`;
  await Deno.mkdir(cache);
  await new Deno.Command("/bin/cp", { args: ["-r", npmCache, `${cache}/npm`] }).output();
  return cache;
}

/** npm packages of which a cache of the runtime has a version. */
export function packagesIn(cache: string): string[] {
  const registry = `${cache}/npm/registry.npmjs.org`;
  const names = [...Deno.readDirSync(registry)].flatMap(({ name }) =>
    name.startsWith("@") ? [...Deno.readDirSync(`${registry}/${name}`)].map((each) => `${name}/${each.name}`) : [name]
  );
  return names.filter((name) => [...Deno.readDirSync(`${registry}/${name}`)].some(({ isDirectory }) => isDirectory));
}

/** What a program printed and how it ended. */
export interface Ran {
  code: number;
  stdout: string;
  stderr: string;
}

/** Runs a program to its end, with `env` beside what this process has. */
export async function run(
  program: string,
  args: string[],
  { env = {}, cwd = "/" }: { env?: Record<string, string>; cwd?: string } = {},
): Promise<Ran> {
  const { code, stdout, stderr } = await new Deno.Command(program, {
    args,
    env: { NO_COLOR: "1", ...env },
    cwd,
    stdin: "null",
  }).output();
  const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
  return { code, stdout: text(stdout), stderr: text(stderr) };
}
