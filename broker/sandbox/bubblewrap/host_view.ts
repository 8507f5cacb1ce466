/**
 * What sandboxes see of the host beside its system: the agents' programs, with the links that lead to them, their
 * packages and their interpreters, and the folders of the setting `sandbox.read`.
 *
 * What it guarantees: no home directory, no key, no socket and nothing of taskd's own is in a view, whatever a program's
 * links or the settings lead to. It is read once, before the broker gives up its permission to look around.
 */

import { basename } from "@std/path/basename";
import { dirname } from "@std/path/dirname";
import { join } from "@std/path/join";
import { isDirectory } from "../../../lib/fs.ts";
import { resolve } from "../../../lib/real_path.ts";
import { words } from "../../../lib/text/words.ts";
import { isProgram } from "../host_programs.ts";
import { SYSTEM_FOLDERS } from "./system_view.ts";

export interface HostView {
  /** Folders and files that are bound at their own paths, read-only; none lies in another. */
  folders: readonly string[];
  /** Links that a sandbox has too: path, target. */
  links: readonly (readonly [path: string, target: string])[];
  /** The folders of PATH that are visible, in their order. */
  path: readonly string[];
}

export interface ReadHostView extends HostView {
  /** The programs that were found, by their names. */
  programs: readonly string[];
  /**
   * Folders of `sandbox.read` that are not shown, and what is private but would be seen with the system: no sandbox is
   * to be started while there are any.
   */
  refused: readonly { path: string; why: string; remedy: string }[];
}

export const EMPTY_VIEW: ReadHostView = { folders: [], links: [], path: [], programs: [], refused: [] };

export interface HostViewOptions {
  /** PATH. */
  path: string;
  home: string;
  /** Names of programs to look for. */
  programs: readonly string[];
  /** The setting `sandbox.read`. */
  read: readonly string[];
  /** Folders of taskd. */
  own: readonly string[];
}

/** Where keys and accounts are, below a home directory. */
const SECRET_PLACES = words(`
  .aws .azure .claude .claude.json .codex .config/gcloud .config/gh .config/op .docker .gemini .git-credentials .gnupg
  .kube .local/share/keyrings .mozilla .netrc .npmrc .password-store .pypirc .ssh .taskd .terraform.d
`);
/** What is the host's alone: its state, its sockets, its devices, its keys. */
const HOST_PLACES = words("/proc /sys /dev /run /var/run /tmp /boot /etc/shadow /etc/ssh /etc/ssl/private");
/** Every user reads all of it: what a configuration manager links there is no secret. */
const PUBLIC = "/nix/store";
const REMEDY = "Take it out of sandbox.read, or name a folder in it that has neither keys nor sockets";
/** As many links as Linux follows. */
const MAX_LINKS = 40;
/** `#!` and its line; more is no interpreter's path. */
const HEAD_BYTES = 256;
const MAX_DEPTH = 4;

export const isWithin = (path: string, folder: string) =>
  path === folder || path.startsWith(folder === "/" ? "/" : `${folder}/`);
const isSystem = (path: string) => SYSTEM_FOLDERS.some((folder) => isWithin(path, folder));

type Owner = Pick<HostViewOptions, "home" | "own">;

/** Why sandboxes must not see a folder; undefined when they may. Links count as written and where they lead. */
export function whyPrivate(path: string, { home, own }: Owner): string | undefined {
  if (path === "/root" || /^(?:\/var)?\/(?:home|Users)(?:\/[^/]+)?$/.test(path)) return "it is a home directory";
  const closed = places([...secretPlaces(home), ...HOST_PLACES, ...own]);
  const place = [...places([home]), ...closed].find((one) => isWithin(one, path)) ??
    closed.find((one) => isWithin(path, one));
  if (place === undefined) return undefined;
  return place === path ? "it is private" : isWithin(place, path) ? `it has ${place} in it` : `it is in ${place}`;
}

function secretPlaces(home: string): string[] {
  return SECRET_PLACES.map((name) => `${home}/${name}`);
}

/** Each as it is written, and where it is. */
function places(paths: readonly string[]): string[] {
  return [...new Set(paths.flatMap((path) => [path, endOf(path)]))];
}

/** Where a path leads to; what is not there yet would be in its folder. */
function endOf(path: string): string {
  const end = walk(path)?.end;
  if (end !== undefined || path === dirname(path)) return end ?? path;
  return join(endOf(dirname(path)), basename(path));
}

/** What is private and in a folder that every sandbox sees, the outermost of each. */
function exposed({ home, own }: Owner): string[] {
  const there = secretPlaces(home).filter((path) => walk(path) !== undefined);
  const seen = [home, ...own, ...there].map(endOf).filter((path) => isSystem(path) && !isWithin(path, PUBLIC));
  return [...new Set(seen)].filter((path) => !seen.some((other) => other !== path && isWithin(path, other)));
}

/** Reads what is there now. */
export function readHostView(options: HostViewOptions): ReadHostView {
  const { path, read } = options;
  const entries = path.split(":").filter((entry) => entry.startsWith("/")).map(resolve);
  const found = new Found(options, entries);
  const programs = options.programs.filter((name) => found.addProgram(name));
  const refused: { path: string; why: string; remedy: string }[] = exposed(options).map((path) => ({
    path,
    why: "it is private, and in a folder that every sandbox sees",
    remedy: `Move it out of ${SYSTEM_FOLDERS.join(", ")}; or use another runtime`,
  }));
  for (const folder of read) {
    const why = found.addFolder(folder);
    if (why !== undefined) refused.push({ path: folder, why, remedy: REMEDY });
  }
  return { ...found.view(), programs, refused };
}

class Found {
  readonly #options: HostViewOptions;
  readonly #entries: readonly string[];
  readonly #folders = new Set<string>();
  readonly #links = new Map<string, string>();

  constructor(options: HostViewOptions, entries: readonly string[]) {
    this.#options = options;
    this.#entries = entries;
  }

  /** Adds a program of PATH, or one by its path; false when it cannot be shown. */
  addProgram(name: string, depth = 0): boolean {
    const at = name.includes("/") ? name : this.#entries.map((entry) => `${entry}/${name}`).find(isProgram);
    if (at === undefined || depth > MAX_DEPTH || !isProgram(at)) return false;
    const walked = walk(at);
    if (walked === undefined) return false;
    const shown = packageOf(walked.end, this.#options.home);
    if (!isSystem(walked.end) && whyPrivate(shown, this.#options) !== undefined) return false;
    const interpreter = interpreterOf(walked.end);
    if (interpreter !== undefined && !this.addProgram(interpreter, depth + 1)) return false;
    this.#add(shown, walked.links);
    return true;
  }

  /** Adds a folder; returns why not. */
  addFolder(path: string): string | undefined {
    const walked = walk(path);
    if (walked === undefined) return "it is not there";
    const why = whyPrivate(path, this.#options) ?? whyPrivate(walked.end, this.#options);
    if (why === undefined) this.#add(walked.end, walked.links);
    return why;
  }

  #add(end: string, links: readonly (readonly [string, string])[]): void {
    if (!isSystem(end)) this.#folders.add(end);
    for (const [path, target] of links) if (!isSystem(path)) this.#links.set(path, target);
  }

  view(): HostView {
    const all = [...this.#folders].sort();
    const folders = all.filter((path) => !all.some((other) => other !== path && isWithin(path, other)));
    const shown = (path: string) => folders.some((folder) => isWithin(path, folder));
    // What lies in a folder that is shown is there already.
    const links = [...this.#links].filter(([path]) => !shown(path)).sort(([a], [b]) => a < b ? -1 : 1);
    const names = [...folders, ...links.map(([path]) => path)];
    const visible = (entry: string) =>
      isSystem(entry) || shown(entry) || names.some((path) => dirname(path) === entry) ||
      links.some(([path]) => isWithin(entry, path));
    return {
      folders,
      links,
      path: [...new Set(this.#entries)].filter((entry) => !entry.includes("\0") && visible(entry)),
    };
  }
}

interface Walked {
  /** Where the path leads to, without links. */
  end: string;
  links: (readonly [path: string, target: string])[];
}

/** Follows every link of a path, its folders' too; undefined when it leads nowhere. */
function walk(path: string): Walked | undefined {
  const left = path.split("/").reverse();
  const links: Walked["links"] = [];
  let at = "";
  try {
    for (let name = left.pop(); name !== undefined; name = left.pop()) {
      if (name === "" || name === ".") continue;
      if (name === "..") {
        at = at.slice(0, Math.max(0, at.lastIndexOf("/")));
        continue;
      }
      const here = `${at}/${name}`;
      if (!Deno.lstatSync(here).isSymlink) {
        at = here;
        continue;
      }
      if (links.length >= MAX_LINKS) return undefined;
      const target = Deno.readLinkSync(here);
      links.push([here, target]);
      if (target.startsWith("/")) at = "";
      left.push(...target.split("/").reverse());
    }
  } catch {
    return undefined;
  }
  return { end: at === "" ? "/" : at, links };
}

/** What a program comes with: its npm package, the prefix that it was installed to, or itself alone. */
function packageOf(end: string, home: string): string {
  const first = end.indexOf("/node_modules/");
  if (first >= 0) {
    const modules = end.slice(0, first + "/node_modules".length);
    // A prefix of npm's has a folder for each package, with all that it needs; elsewhere they lie side by side.
    if (!modules.endsWith("/lib/node_modules")) return modules;
    const [scope = "", name = ""] = end.slice(modules.length + 1).split("/");
    return `${modules}/${scope.startsWith("@") ? `${scope}/${name}` : scope}`;
  }
  const folder = dirname(end);
  const prefix = dirname(folder);
  const isPrefix = basename(folder) === "bin" && !isWithin(home, prefix) && prefix !== `${home}/.local`;
  return isPrefix && isDirectory(`${prefix}/lib`) ? prefix : end;
}

/** The program that a script's first line names. */
function interpreterOf(path: string): string | undefined {
  const head = new Uint8Array(HEAD_BYTES);
  let read = 0;
  try {
    using file = Deno.openSync(path);
    read = file.readSync(head) ?? 0;
  } catch {
    return undefined;
  }
  const text = new TextDecoder().decode(head.subarray(0, read));
  const [, program, argument] = /^#![ \t]*(\S+)(?:[ \t]+(?:-S[ \t]+)?(\S+))?/.exec(text) ?? [];
  return program !== undefined && basename(program) === "env" ? argument : program;
}
