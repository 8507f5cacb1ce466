/**
 * Paths as they really are: symbolic links resolved, so that two spellings of one place are equal.
 */

/**
 * A path as absolute, from the current directory, and without symbolic links: permissions are checked against both the
 * spelling and the place, so both must agree. What does not exist yet is kept as spelled.
 */
export function absolutePath(path: string): string {
  const spelled = resolve(path);
  let missing = "";
  for (let known = spelled;; known = parentOf(known)) {
    try {
      const real = Deno.realPathSync(known);
      return missing === "" ? real : `${real === "/" ? "" : real}${missing}`;
    } catch {
      if (known === "/") return spelled;
      missing = known.slice(known.lastIndexOf("/")) + missing;
    }
  }
}

/**
 * An absolute path without `.` and `..`. Written out: the path library would be a third of the start-up of a command that
 * has nothing else to load.
 */
export function resolve(path: string): string {
  const parts: string[] = [];
  for (const part of (path.startsWith("/") ? path : `${Deno.cwd()}/${path}`).split("/")) {
    if (part === "..") parts.pop();
    else if (part !== "" && part !== ".") parts.push(part);
  }
  return `/${parts.join("/")}`;
}

/** The directory that an absolute path without `.` and `..` lies in; the root is its own. */
export function parentOf(path: string): string {
  return path.slice(0, path.lastIndexOf("/")) || "/";
}

/** The real place of `path` below `directory`, empty for itself; undefined for one that is outside. */
export function placeInside(directory: string, path: string): string | undefined {
  const [root, place] = [absolutePath(directory), absolutePath(path)];
  if (place === root) return "";
  return place.startsWith(`${root}/`) ? place.slice(root.length + 1) : undefined;
}
