/**
 * The names that git, or a file system somewhere, reads as `.git`: other case, NTFS's and HFS's spellings.
 */

/** What HFS+ ignores in a name, as git's utf8.c lists it. */
const IGNORED = /[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]/g;

export function isGitName(name: string): boolean {
  // NTFS drops spaces and dots at the end, opens streams behind a colon, and has a short name for it.
  return /^(?:\.git|git~[0-9]+)[ .]*(?::.*)?$/s.test(name.replace(IGNORED, "").toLowerCase());
}

export function hasGitName(path: string): boolean {
  // A backslash separates names on Windows.
  return path.split(/[/\\]/).some(isGitName);
}
