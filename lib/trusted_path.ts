/**
 * Whether what is at a path, and what leads there, is this user's own: a file, a directory or a socket that another user
 * of the machine put there, or could exchange, is refused. One table says what is checked of what.
 *
 * Every directory above has to belong to this user or to root, and others must not be able to rename in it: only the
 * sticky bit allows them to write. So nothing is exchanged between the check and the use.
 */

import { messageOf, TaskdError } from "./errors.ts";
import { parentOf } from "./real_path.ts";
import { shellWord } from "./text/shell_word.ts";

/** What a path has to be. */
export interface TrustRule {
  type: "file" | "directory" | "socket";
  /** Whether root may own it, as it may everything above. */
  of_root: boolean;
  /** Whether it may be a link, of this user or root, to what passes the same rule. */
  link: boolean;
  /** Bits that its mode must not have, and what they would allow. */
  forbidden: number;
  others: string;
  /** What to do if it cannot be mended. */
  otherwise: string;
}

const ANOTHER_SOCKET = "name another socket with --socket, broker.socket or BROKER_SOCKET";
const MOVED = "move it away and make one of your own";
const CHANGE = { forbidden: 0o022, others: "other users can change it" };

/** What leads to any of the others; its advice is that of the other. */
const ABOVE = { type: "directory", of_root: true, link: true, ...CHANGE, otherwise: "" } as const satisfies TrustRule;
const STICKY = 0o1000;
/** Harmless where the group has its owner's number: many systems make a group for each user, who is alone in it. */
const GROUP_WRITE = 0o020;

/** What is checked, by {@linkcode TRUST_RULES}. */
export type TrustRuleName = "socket" | "socket_directory" | "home" | "root" | "settings" | "secret" | "log";

/** A row for each kind of path by which another user could become the operator. */
export const TRUST_RULES: Readonly<Record<TrustRuleName, TrustRule>> = {
  /** A daemon's socket, for its clients. */
  socket: {
    type: "socket",
    of_root: true,
    link: false,
    forbidden: 0o022,
    others: "other users can connect to it",
    otherwise: ANOTHER_SOCKET,
  },
  /** The directory in which the broker makes its socket. */
  socket_directory: {
    type: "directory",
    of_root: false,
    link: false,
    forbidden: 0o077,
    others: "it can be entered by others",
    otherwise: ANOTHER_SOCKET,
  },
  /** `~/.taskd`. */
  home: { type: "directory", of_root: false, link: true, ...CHANGE, otherwise: MOVED },
  /** `stage_root`, `audit_root`, `squid_run_dir` and `cache_root`. */
  root: { type: "directory", of_root: false, link: false, ...CHANGE, otherwise: "name one of your own in config.yaml" },
  /** Settings, the egress list, prices, the queue. */
  settings: { type: "file", of_root: true, link: true, ...CHANGE, otherwise: MOVED },
  /** Keys and tokens. */
  secret: {
    type: "file",
    of_root: true,
    link: true,
    forbidden: 0o077,
    others: "other users can reach it",
    otherwise: MOVED,
  },
  /** What is appended to and closed to others. */
  log: { type: "file", of_root: false, link: false, ...CHANGE, otherwise: MOVED },
};

/**
 * Makes sure of a path and of all that leads there. A directory above that Deno's permissions keep this process from
 * inspecting is left out: the caller that gave it its permissions has chosen the path. A command checks before it gives up
 * its own.
 *
 * Requires `--allow-read` and `--allow-sys=uid`.
 *
 * @param owner Whose it has to be, by default this process's user.
 * @returns What is there, links followed; undefined when nothing is.
 * @throws {TaskdError} `denied`, with what is wrong and what to do.
 */
export function requireTrusted(path: string, name: TrustRuleName, owner?: number): Deno.FileInfo | undefined {
  try {
    const uid = owner ?? Deno.uid();
    visitAbove(path, name, uid);
    const info = Deno.lstatSync(path);
    if (!info.isSymlink || !TRUST_RULES[name].link) return requireRule(info, path, name, uid);
    requireOwner(info, path, { ...TRUST_RULES[name], of_root: true }, uid);
    const target = Deno.realPathSync(path);
    visitAbove(target, name, uid);
    // By the name that this process may have a permission for.
    return requireRule(Deno.statSync(path), target, name, uid);
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw unusable(error, path);
  }
}

/**
 * Makes sure of what leads to a path, whatever is there.
 *
 * @throws {TaskdError} as {@linkcode requireTrusted}.
 */
export function requireTrustedAbove(path: string, name: TrustRuleName): void {
  try {
    visitAbove(path, name, Deno.uid());
  } catch (error) {
    if (!isMissing(error)) throw unusable(error, path);
  }
}

function isMissing(error: unknown): boolean {
  return error instanceof Deno.errors.NotFound || error instanceof Deno.errors.NotADirectory;
}

/** `fileError` of fs.ts would lead more of the library into the broker's client than a registry can check the types of. */
function unusable(error: unknown, path: string): TaskdError {
  if (error instanceof TaskdError) return error;
  const may_not = error instanceof Deno.errors.PermissionDenied || error instanceof Deno.errors.NotCapable;
  return new TaskdError(may_not ? "denied" : "unavailable", `Cannot use ${path}: ${messageOf(error)}`, {
    cause: error,
  });
}

/** The directory that `path` is in, and those above: as they are spelled, and as they really are. */
function visitAbove(path: string, name: TrustRuleName, uid: number | null): void {
  const checked = new Set<string>(["/"]);
  const { otherwise } = TRUST_RULES[name];
  const visit = (place: string) => {
    if (checked.has(place)) return;
    checked.add(place);
    visit(parentOf(place));
    const info = inspect(place);
    if (info === undefined) return;
    requireOwner(info, place, { ...ABOVE, otherwise }, uid);
    if (info.isSymlink) return visit(Deno.realPathSync(place));
    const allowed = (info.mode ?? 0) & STICKY ? ABOVE.forbidden : info.gid === info.uid ? GROUP_WRITE : 0;
    checkRule(info, place, { ...ABOVE, forbidden: ABOVE.forbidden & ~allowed, otherwise }, uid);
  };
  visit(parentOf(path));
}

function inspect(path: string): Deno.FileInfo | undefined {
  try {
    return Deno.lstatSync(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotCapable) return undefined;
    throw error;
  }
}

/** Makes sure of what is open already, which cannot have been exchanged. */
export function requireRule(
  info: Deno.FileInfo,
  path: string,
  name: TrustRuleName,
  uid: number | null = Deno.uid(),
): Deno.FileInfo {
  return checkRule(info, path, TRUST_RULES[name], uid);
}

function checkRule(info: Deno.FileInfo, path: string, rule: TrustRule, uid: number | null): Deno.FileInfo {
  const { type, forbidden, others, otherwise } = rule;
  const is = { file: info.isFile, directory: info.isDirectory, socket: info.isSocket === true };
  if (!is[type]) {
    const needed = type === "file" ? "regular file" : type;
    throw refused(path, `it is ${info.isSymlink ? "a link, " : ""}not a ${needed}`, otherwise);
  }
  requireOwner(info, path, rule, uid);
  const mode = info.mode ?? 0;
  if ((mode & forbidden) === 0) return info;
  const shown = (mode & 0o7777).toString(8).padStart(4, "0");
  const mended = (mode & 0o777 & ~(forbidden | CHANGE.forbidden)).toString(8);
  throw refused(
    path,
    `${others} (mode ${shown})`,
    `run: chmod ${mended} ${shellWord(path)}${type === "file" ? "" : `, or ${otherwise}`}`,
  );
}

function requireOwner(
  { uid: owner }: Deno.FileInfo,
  path: string,
  { of_root, otherwise }: TrustRule,
  uid: number | null,
): void {
  if (owner === null || owner === uid || (of_root && owner === 0)) return;
  throw refused(path, `it belongs to another user (${owner}), who decides what is there`, otherwise);
}

function refused(path: string, problem: string, hint: string): TaskdError {
  return new TaskdError("denied", `Cannot use ${path}: ${problem}`, { hint: hint[0]!.toUpperCase() + hint.slice(1) });
}
