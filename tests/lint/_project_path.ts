/**
 * Where a linted file stands in the project. The rules speak of paths such as
 * `lib/store/store.ts`, whatever directory the project was cloned into.
 */

import config from "../../deno.json" with { type: "json" };

const ROOT = new URL("../../", import.meta.url).pathname;

/** The `/`-separated path inside the project of a file name as the linter gives it. */
export function projectPath(filename: string): string {
  return filename.startsWith(ROOT) ? filename.slice(ROOT.length) : filename;
}

/** Whether a file is test code: beside its source, or under `tests/`. */
export function isTestCode(path: string): boolean {
  return path.startsWith("tests/") || /_test(?:ing)?\.ts$/.test(path);
}

/** The project's own package by name, also with a registry and a version, and the subpath in it. */
const OWN_PACKAGE = new RegExp(`^(?:jsr:/?)?${config.name}(?:@[^/]+)?(?=/|$)`);

/**
 * What a relative specifier in `from`, or one of the project's own package, points at, as a project path; undefined for
 * any other specifier, and for a folder, which is no module.
 */
export function resolveSpecifier(from: string, specifier: string): string | undefined {
  if (OWN_PACKAGE.test(specifier)) {
    const exported = config.exports[specifier.replace(OWN_PACKAGE, ".") as keyof typeof config.exports];
    return exported?.slice("./".length);
  }
  if (!specifier.startsWith("./") && !specifier.startsWith("../") || specifier.endsWith("/")) return undefined;
  return new URL(specifier, `file:///${from}`).pathname.slice(1);
}

/** The folder of a project path, `""` for the root. */
export function folderOf(path: string): string {
  return path.slice(0, Math.max(0, path.lastIndexOf("/")));
}
