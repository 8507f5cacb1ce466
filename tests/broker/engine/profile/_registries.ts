/**
 * A registry of npm and an index of Python packages with one package each, as small as the package managers take it.
 */

import { createHash } from "node:crypto";

/** The name under which sandboxes ask for it. */
export const REGISTRY_HOST = "registry.example.com";

/** A running registry. */
export interface Registry extends AsyncDisposable {
  port: number;
  /** Paths that were asked for, in order. */
  readonly asked: string[];
  /** `package.json` and `package-lock.json` of a project that depends on its package. */
  npmProject: Record<"package.json" | "package-lock.json", string>;
  /** `requirements.txt` with the package's digest. */
  requirements: string;
}

const WHEEL = `
import sys, zipfile
with zipfile.ZipFile(sys.argv[1], "w") as wheel:
    wheel.writestr("tiny_package.py", "answer = 42\\n")
    wheel.writestr("tiny_package-1.0.0.dist-info/METADATA", "Metadata-Version: 2.1\\nName: tiny-package\\nVersion: 1.0.0\\n")
    wheel.writestr("tiny_package-1.0.0.dist-info/WHEEL", "Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
    wheel.writestr("tiny_package-1.0.0.dist-info/RECORD", "tiny_package.py,,\\ntiny_package-1.0.0.dist-info/METADATA,,\\ntiny_package-1.0.0.dist-info/WHEEL,,\\ntiny_package-1.0.0.dist-info/RECORD,,\\n")
`;

/** Starts one on loopback. */
export async function startRegistry(): Promise<Registry> {
  const folder = await Deno.makeTempDir({ prefix: "taskd-registry-" });
  const tarball = await npmTarball(folder);
  const wheel = await pythonWheel(folder);
  const integrity = `sha512-${createHash("sha512").update(tarball).digest("base64")}`;
  const sha256 = createHash("sha256").update(wheel).digest("hex");
  const tarball_url = `http://${REGISTRY_HOST}/tiny-package/-/tiny-package-1.0.0.tgz`;
  const version = { name: "tiny-package", version: "1.0.0", dist: { tarball: tarball_url, integrity } };
  const wheel_path = "/files/tiny_package-1.0.0-py3-none-any.whl";
  const asked: string[] = [];
  const answers: Record<string, () => Response> = {
    "/tiny-package": () =>
      Response.json({ name: "tiny-package", "dist-tags": { latest: "1.0.0" }, versions: { "1.0.0": version } }),
    "/tiny-package/-/tiny-package-1.0.0.tgz": () => new Response(tarball),
    "/simple/tiny-package/": () =>
      new Response(`<a href="${wheel_path}#sha256=${sha256}">${wheel_path.slice(7)}</a>`, {
        headers: { "content-type": "text/html" },
      }),
    [wheel_path]: () => new Response(wheel, { headers: { "cache-control": "max-age=31536000", etag: '"1"' } }),
  };
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, (request) => {
    const { pathname } = new URL(request.url);
    asked.push(pathname);
    return answers[pathname]?.() ?? new Response("not here", { status: 404 });
  });
  const manifest = { name: "project", version: "1.0.0", dependencies: { "tiny-package": "1.0.0" } };
  const packages = {
    "": manifest,
    "node_modules/tiny-package": { version: "1.0.0", resolved: tarball_url, integrity },
  };
  return {
    port: server.addr.port,
    asked,
    npmProject: {
      "package.json": JSON.stringify(manifest),
      "package-lock.json": JSON.stringify({ ...manifest, lockfileVersion: 3, requires: true, packages }),
    },
    requirements: `tiny-package==1.0.0 --hash=sha256:${sha256}\n`,
    [Symbol.asyncDispose]: async () => {
      await server.shutdown();
      await Deno.remove(folder, { recursive: true });
    },
  };
}

async function npmTarball(folder: string) {
  await Deno.mkdir(`${folder}/package`);
  const manifest = { name: "tiny-package", version: "1.0.0", main: "index.js" };
  await Deno.writeTextFile(`${folder}/package/package.json`, JSON.stringify(manifest));
  await Deno.writeTextFile(`${folder}/package/index.js`, "module.exports = 42;\n");
  await run("tar", ["-C", folder, "-czf", `${folder}/package.tgz`, "package"]);
  return await Deno.readFile(`${folder}/package.tgz`);
}

async function pythonWheel(folder: string) {
  await run("python3", ["-c", WHEEL, `${folder}/package.whl`]);
  return await Deno.readFile(`${folder}/package.whl`);
}

async function run(program: string, args: string[]): Promise<void> {
  const { success, stderr } = await new Deno.Command(program, { args }).output();
  if (!success) throw new Error(`${program}: ${new TextDecoder().decode(stderr)}`);
}
