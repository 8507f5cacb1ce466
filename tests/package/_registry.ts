/**
 * A registry on loopback that speaks as much of JSR's protocol as `deno publish`, `deno install` and the runtime use. It
 * has the stand-ins of std/ under the names and versions that the project imports, and what is published to it.
 */

import { join } from "@std/path/join";
import { ROOT, serveFiles } from "./_publish_and_run.ts";

interface PackageFiles {
  version: string;
  exports: Record<string, string>;
  /** Content by path, which begins with a slash. */
  files: Map<string, Uint8Array<ArrayBuffer>>;
}

/** The registry. */
export class Registry implements AsyncDisposable {
  readonly #server: Deno.HttpServer<Deno.NetAddr>;
  readonly #packages = new Map<string, PackageFiles>();
  readonly #scratch: string;

  private constructor(scratch: string) {
    this.#scratch = scratch;
    this.#server = serveFiles((path) => this.#read(path), (request) => this.#api(request));
  }

  /** Starts it; `scratch` is an empty directory. */
  static async start(scratch: string): Promise<Registry> {
    const registry = new Registry(scratch);
    for (const { name, isDirectory } of Deno.readDirSync(new URL("std", ROOT))) {
      if (isDirectory) await registry.#add(new URL(`std/${name}`, ROOT).pathname);
    }
    return registry;
  }

  /** What `JSR_URL` names it by. */
  get url(): string {
    return `http://127.0.0.1:${this.#server.addr.port}/`;
  }

  /** `host:port`. */
  get host(): string {
    return `127.0.0.1:${this.#server.addr.port}`;
  }

  /** Paths of a package's files. */
  files(name: string): string[] {
    return [...this.#packages.get(name)!.files.keys()].map((path) => path.slice(1)).sort();
  }

  /** Ends it. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server.shutdown();
  }

  /** Takes the package in a folder, whose deno.json names it. */
  async #add(folder: string): Promise<void> {
    const { name, version, exports } = JSON.parse(await Deno.readTextFile(join(folder, "deno.json")));
    const files = new Map<string, Uint8Array<ArrayBuffer>>();
    const visit = async (below: string) => {
      for (const { name, isDirectory } of Deno.readDirSync(folder + below)) {
        if (isDirectory) await visit(`${below}/${name}`);
        else files.set(`${below}/${name}`, await Deno.readFile(`${folder}${below}/${name}`));
      }
    };
    await visit("");
    this.#packages.set(name, { version, exports, files });
  }

  /** What is read: the versions of a package, the files of a version, a file. */
  async #read(path: string): Promise<Uint8Array<ArrayBuffer> | undefined> {
    const [, name = "", rest = ""] = /^\/(@[^/]+\/[^/]+)\/(.+)$/.exec(path) ?? [];
    const found = this.#packages.get(name);
    if (found === undefined) return undefined;
    const { version, exports, files } = found;
    const json = (value: object) => new TextEncoder().encode(JSON.stringify(value));
    if (rest === "meta.json") return json({ latest: version, versions: { [version]: {} } });
    if (rest === `${version}_meta.json`) return json({ manifest: await manifestOf(files), exports });
    return files.get(rest.slice(version.length));
  }

  /** What publishing asks for. */
  async #api(request: Request): Promise<Response | undefined> {
    const { pathname } = new URL(request.url);
    if (!pathname.startsWith("/api/")) return undefined;
    const task = { id: "1", error: null };
    if (pathname.startsWith("/api/publish_status/")) return Response.json({ ...task, status: "success" });
    if (request.method === "POST") {
      const folder = join(this.#scratch, "published");
      await Deno.mkdir(folder);
      const tar = new Deno.Command("tar", { args: ["-xzf", "-", "-C", folder], stdin: "piped" }).spawn();
      await request.body!.pipeTo(tar.stdin);
      if (!(await tar.status).success) return new Response(null, { status: 400 });
      await this.#add(folder);
      return Response.json({ ...task, status: "pending" });
    }
    if (pathname.includes("/versions/")) {
      return Response.json({ code: "packageVersionNotFound", message: "not found" }, { status: 404 });
    }
    return Response.json({ scope: "taskd", name: "taskd", githubRepository: null, latestVersion: null, score: null });
  }
}

async function manifestOf(files: PackageFiles["files"]) {
  const manifest: Record<string, { size: number; checksum: string }> = {};
  for (const [path, bytes] of files) {
    const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
    manifest[path] = { size: bytes.length, checksum: `sha256-${digest.toHex()}` };
  }
  return manifest;
}
