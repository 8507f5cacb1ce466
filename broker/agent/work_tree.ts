/**
 * The files of one work folder, for an agent whose every path may be hostile.
 *
 * Paths are relative and stay inside; no component may be a symbolic link, a device, a FIFO or git's own folder.
 * Deno's permissions alone do not hold this: they compare paths as written and follow links. What is opened is
 * compared with what was inspected, and a file that has a second name is never written, since that name may be outside.
 * Links of the repository were put aside before, and come back after: here they are known by name, so that nothing is
 * written in their place.
 */

import { fillSync } from "../../lib/fs.ts";
import { plural } from "../../lib/text/plural.ts";
import { hasGitName } from "../../lib/text/git_name.ts";
import type { AgentLink } from "./config.ts";

/** A call that cannot be done; the model reads the message. */
export class ToolError extends Error {
  override name = "ToolError";
}

/** The largest file that is read, searched, written or edited. */
const MAX_FILE_BYTES = 1 << 20;
const MAX_LISTED = 1_000;
const MAX_WALKED = 100_000;
/** Linux: 255 bytes per name, 4096 per path. */
const MAX_NAME_BYTES = 255;
const MAX_PATH_BYTES = 2_048;

export interface ListedEntry {
  name: string;
  kind: "file" | "folder" | "link" | "other";
  size_bytes?: number;
  target?: string;
}

export interface WorkTreeOptions {
  /** Links that were put aside; paths are relative to the folder. */
  links?: readonly AgentLink[];
  max_walked?: number;
}

export function parsePath(path: string): string[] {
  const shown = JSON.stringify(path.slice(0, 80));
  const refuse = (why: string): never => {
    throw new ToolError(`The path ${shown} is refused: ${why}`);
  };
  const bytes = (text: string) => new TextEncoder().encode(text).length;
  if (path.includes("\0")) refuse("it has a NUL character");
  if (!path.isWellFormed()) refuse("it is not valid Unicode");
  if (path.startsWith("/")) refuse("give it relative to the work folder, without a leading /");
  if (path.length > MAX_PATH_BYTES || bytes(path) > MAX_PATH_BYTES) refuse(`it has more than ${MAX_PATH_BYTES} bytes`);
  const parts = path.split("/").filter((part) => part !== "" && part !== ".");
  for (const part of parts) {
    if (part === "..") refuse("it has .. in it; nothing outside the work folder can be reached");
    if (bytes(part) > MAX_NAME_BYTES) refuse(`a name in it has more than ${MAX_NAME_BYTES} bytes`);
    if (hasGitName(part)) refuse("git's own folder is off limits");
  }
  return parts;
}

function byPath(links: readonly AgentLink[]): ReadonlyMap<string, string> {
  return new Map(links.map(({ path, target }) => [path, target]));
}

export class WorkTree {
  readonly #root: string;
  readonly #max_walked: number;
  #links: ReadonlyMap<string, string>;

  /** Of the folder at `root`, absolute and without links. */
  constructor(root: string, { links = [], max_walked = MAX_WALKED }: WorkTreeOptions = {}) {
    this.#root = root;
    this.#max_walked = max_walked;
    this.#links = byPath(links);
  }

  /** Takes over which links were put aside since: something else has worked on the folder. */
  relink(links: readonly AgentLink[]): void {
    this.#links = byPath(links);
  }

  /** A file's text; a file that is too large, or not UTF-8, is refused. */
  async read(path: string): Promise<string> {
    const found = await this.#file(path);
    if (found === undefined) throw new ToolError(`There is no file ${JSON.stringify(path)}`);
    const file = await openSame(found, { read: true });
    try {
      return readText(file, path);
    } finally {
      file.close();
    }
  }

  async write(path: string, text: string): Promise<"created" | "replaced"> {
    const bytes = new TextEncoder().encode(text);
    if (bytes.length > MAX_FILE_BYTES) throw new ToolError(`A file may have at most ${MAX_FILE_BYTES} bytes`);
    const parts = parsePath(path);
    if (parts.length === 0) throw new ToolError("Give the path of a file");
    const found = await this.#file(path);
    if (found !== undefined && found.info.nlink !== null && found.info.nlink > 1) {
      throw new ToolError(`${JSON.stringify(path)} has a second name (a hard link) and is not written`);
    }
    if (found === undefined) {
      const folder = [this.#root, ...parts.slice(0, -1)].join("/");
      await system(path, () => Deno.mkdir(folder, { recursive: true }));
      // createNew: what appeared in the meantime, a link among it, is not followed.
      const file = await system(
        path,
        () => Deno.open([this.#root, ...parts].join("/"), { write: true, createNew: true }),
      );
      await overwrite(file, bytes);
      return "created";
    }
    await overwrite(await openSame(found, { write: true }), bytes);
    return "replaced";
  }

  /** The entries of a folder, sorted by name, at most {@linkcode MAX_LISTED}; `more` when there were others. */
  async list(path: string): Promise<{ entries: ListedEntry[]; more: boolean }> {
    const { folder, parts } = await this.#folder(path);
    const names: { name: string; target?: string }[] = this.#linksIn(parts);
    await system(path, async () => {
      for await (const entry of Deno.readDir(folder)) {
        if (!hasGitName(entry.name)) names.push(entry);
        if (names.length > this.#max_walked) break;
      }
    });
    names.sort((a, b) => a.name < b.name ? -1 : 1);
    const entries: ListedEntry[] = [];
    for (const { name, target } of names.slice(0, MAX_LISTED)) {
      if (target !== undefined) {
        entries.push({ name, kind: "link", target });
        continue;
      }
      const info = await lstatIfThere(`${folder}/${name}`, path);
      // Gone again, or a name that is not UTF-8: no path leads there.
      if (info === undefined) {
        entries.push({ name, kind: "other" });
        continue;
      }
      const kind = info.isSymlink ? "link" : info.isDirectory ? "folder" : info.isFile ? "file" : "other";
      entries.push({ name, kind, ...(kind === "file" ? { size_bytes: info.size } : {}) });
    }
    return { entries, more: names.length > MAX_LISTED };
  }

  /**
   * Paths of the regular files below a folder (or the file itself), folders in the order of their names. `onCut` gets
   * the reason when there are more than are walked.
   */
  async *files(path: string, onCut: (why: string) => void = () => {}): AsyncGenerator<string> {
    const parts = parsePath(path);
    const { info } = await this.#inspect(parts, path);
    if (info?.isFile) return yield parts.join("/");
    const folders = [(await this.#folder(path)).parts.join("/")];
    let walked = 0;
    for (let at = folders.pop(); at !== undefined; at = folders.pop()) {
      const entries: Deno.DirEntry[] = [];
      try {
        for await (const entry of Deno.readDir(`${this.#root}/${at}`)) {
          if (++walked > this.#max_walked) {
            return onCut(`stopped after ${plural(this.#max_walked, "entry")}, the rest was not searched`);
          }
          if (!hasGitName(entry.name)) entries.push(entry);
        }
      } catch (error) {
        // Like an entry that list() shows as other.
        if (!(error instanceof Deno.errors.NotFound)) throw asToolError(error, at);
      }
      entries.sort((a, b) => a.name < b.name ? -1 : 1);
      const below: string[] = [];
      for (const entry of entries) {
        const full = at === "" ? entry.name : `${at}/${entry.name}`;
        if (entry.isFile) yield full;
        if (entry.isDirectory) below.push(full);
      }
      folders.push(...below.reverse());
    }
  }

  #linksIn(parts: readonly string[]): { name: string; target: string }[] {
    const folder = parts.map((part) => `${part}/`).join("");
    return [...this.#links].flatMap(([path, target]) => {
      const name = path.slice(folder.length);
      return path.startsWith(folder) && !name.includes("/") ? [{ name, target }] : [];
    });
  }

  async #folder(path: string): Promise<{ folder: string; parts: string[] }> {
    const parts = parsePath(path);
    const { full, info } = await this.#inspect(parts, path);
    if (info === undefined) throw new ToolError(`There is no folder ${JSON.stringify(path)}`);
    if (!info.isDirectory) throw new ToolError(`${JSON.stringify(path)} is not a folder`);
    return { folder: full, parts };
  }

  async #file(path: string): Promise<Found | undefined> {
    const { full, info } = await this.#inspect(parsePath(path), path);
    if (info === undefined) return undefined;
    if (info.isDirectory) throw new ToolError(`${JSON.stringify(path)} is a folder`);
    if (!info.isFile) throw new ToolError(`${JSON.stringify(path)} is not a regular file`);
    return { full, info, path };
  }

  /** Inspects every component of the path, following none. */
  async #inspect(parts: string[], path: string): Promise<{ full: string; info: Deno.FileInfo | undefined }> {
    let full = this.#root;
    let info: Deno.FileInfo | undefined = await Deno.lstat(full);
    for (const [index, part] of parts.entries()) {
      const target = this.#links.get(parts.slice(0, index + 1).join("/"));
      if (target !== undefined) {
        const leads = `to ${JSON.stringify(target)}, which cannot be followed or replaced here`;
        throw new ToolError(`${JSON.stringify(path)} is or goes through a symbolic link ${leads}`);
      }
      if (info === undefined) return { full: [this.#root, ...parts].join("/"), info };
      if (!info.isDirectory) throw new ToolError(`${JSON.stringify(path)} goes through something that is no folder`);
      full = `${full}/${part}`;
      info = await lstatIfThere(full, path);
      if (info?.isSymlink) throw new ToolError(`${JSON.stringify(path)} is or goes through a symbolic link`);
    }
    return { full, info };
  }
}

interface Found {
  full: string;
  info: Deno.FileInfo;
  path: string;
}

async function lstatIfThere(full: string, path: string): Promise<Deno.FileInfo | undefined> {
  try {
    return await Deno.lstat(full);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw asToolError(error, path);
  }
}

/** Opens what was inspected, and not what replaced it since. */
async function openSame({ full, info, path }: Found, options: Deno.OpenOptions): Promise<Deno.FsFile> {
  const file = await system(path, () => Deno.open(full, options));
  const opened = await file.stat();
  if (opened.ino === info.ino && opened.dev === info.dev && opened.isFile) return file;
  file.close();
  throw new ToolError(`${JSON.stringify(path)} was exchanged while it was opened`);
}

function readText(file: Deno.FsFile, path: string): string {
  const bytes = new Uint8Array(MAX_FILE_BYTES + 1);
  const length = fillSync(file, bytes);
  if (length > MAX_FILE_BYTES) throw new ToolError(`${JSON.stringify(path)} has more than ${MAX_FILE_BYTES} bytes`);
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes.subarray(0, length));
  } catch {
    throw new ToolError(`${JSON.stringify(path)} is not UTF-8 text`);
  }
}

async function overwrite(file: Deno.FsFile, bytes: Uint8Array): Promise<void> {
  try {
    await file.truncate(0);
    for (let done = 0; done < bytes.length;) done += await file.write(bytes.subarray(done));
  } finally {
    file.close();
  }
}

async function system<T>(path: string, call: () => Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (error) {
    throw asToolError(error, path);
  }
}

function asToolError(error: unknown, path: string): ToolError {
  if (error instanceof ToolError) return error;
  return new ToolError(`${JSON.stringify(path)} cannot be used: ${error instanceof Error ? error.name : "it failed"}`, {
    cause: error,
  });
}
