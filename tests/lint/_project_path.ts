/**
 * Where a linted file stands in the project. The rules speak of paths such as
 * `lib/store/store.ts`, whatever directory the project was cloned into.
 */

const ROOT = new URL("../../", import.meta.url).pathname;

/** The `/`-separated path inside the project of a file name as the linter gives it. */
export function projectPath(filename: string): string {
  return filename.startsWith(ROOT) ? filename.slice(ROOT.length) : filename;
}

/** Whether a file is test code: beside its source, or under `tests/`. */
export function isTestCode(path: string): boolean {
  return path.startsWith("tests/") || /_test(?:ing)?\.ts$/.test(path);
}

/**
 * What a relative specifier in `from` points at, as a project path; undefined for
 * any other specifier, and for a folder, which is no module.
 */
export function resolveSpecifier(from: string, specifier: string): string | undefined {
  if (!specifier.startsWith("./") && !specifier.startsWith("../") || specifier.endsWith("/")) return undefined;
  return new URL(specifier, `file:///${from}`).pathname.slice(1);
}

/** The folder of a project path, `""` for the root. */
export function folderOf(path: string): string {
  return path.slice(0, Math.max(0, path.lastIndexOf("/")));
}
