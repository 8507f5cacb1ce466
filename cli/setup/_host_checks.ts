/** Checks of the host except the sandbox runtime: git, the code host's program, disk space. */

import { existsSync } from "@std/fs/exists";
import { freeBytes } from "../../lib/fs.ts";
import { formatBytes } from "../../lib/text/bytes.ts";
import type { Settings } from "../../broker/settings/settings.ts";
import { fail, failedCheck, type HostCheck, ok, warn } from "./check.ts";
import { findGitWall } from "../../broker/git/open_git.ts";
import { INSTALL_GIT, parseGitVersion } from "../../broker/git/min_version.ts";
import { seccompFilter } from "../../broker/sandbox/bubblewrap/seccomp_filter.ts";
import { type AskProgram, findProgram, PROGRAM_PATHS } from "../../broker/sandbox/host_programs.ts";

/** Programs that are there and not used. */
export function checkExchangeable(paths: readonly string[]): HostCheck[] {
  return paths.map((path) => {
    const owned = "Give it, what it leads to and the folders above to root, and let no one else write them";
    return warn("programs", `${path} is not used: another user of this machine could exchange it`, owned);
  });
}

export async function checkGit(ask: AskProgram, places = PROGRAM_PATHS): Promise<HostCheck> {
  const path = findProgram("git", places);
  if (path === undefined) return fail("git", `not found at ${places.git.join(", ")}`, INSTALL_GIT);
  const { stdout } = await ask(path, ["--version"]);
  const found = parseGitVersion(stdout);
  if (found === undefined) return fail("git", `${path} does not report its version`, INSTALL_GIT);
  const { version, is_new } = found;
  if (!is_new) return fail("git", `${version} at ${path} is too old`, INSTALL_GIT);
  const filter = seccompFilter(Deno.build.arch);
  const wall = await findGitWall(path, { ask, bwraps: places.bubblewrap, filter });
  const behind = wall === undefined ? "on the host, behind no wall" : `behind ${wall.bwrap} where it reads objects`;
  return ok("git", `${version} at ${path}, ${behind}`);
}

/** The code host's program. Without it, tasks are pushed and no pull request is opened. */
export async function checkGh(ask: AskProgram, places = PROGRAM_PATHS): Promise<HostCheck> {
  const path = findProgram("gh", places);
  const missed = "without it no pull request is opened, and private repositories of GitHub cannot be cloned";
  if (path === undefined) return warn("gh", `not found; ${missed}`, "Install gh and run gh auth login");
  const { code, stdout, stderr } = await ask(path, ["auth", "status"]);
  if (code !== 0) return warn("gh", `${path} is not logged in; ${missed}`, "Run gh auth login");
  // The host alone: the rest of the output names the account and the token's kind.
  const host = /Logged in to (\S+)/.exec(stdout + stderr)?.[1];
  return ok("gh", `${path}, logged in${host === undefined ? "" : ` to ${host}`}`);
}

/** As much as a task's clone and its caches may take at once. */
const SCARCE_BYTES = 5 * 2 ** 30;
/** Below this, traces cannot be written, and no task starts. */
const FULL_BYTES = 256 * 2 ** 20;

/** Free space at every root, or at its future parent; the roots of one file system share a line. */
export async function checkDisk(settings: Settings, directory: string, free = freeBytes): Promise<HostCheck[]> {
  const roots = ["stage_root", "audit_root", "squid_run_dir", "cache_root"] as const;
  const places = new Map<string, { free: number; names: string[] }>();
  const checks: HostCheck[] = [];
  const nowhere: string[] = [];
  for (const name of roots) {
    try {
      const root = [settings[name], directory].find((path) => existsSync(path));
      if (root === undefined) {
        nowhere.push(name);
        continue;
      }
      const device = String(Deno.statSync(root).dev);
      const place = places.get(device) ?? { free: await free(root), names: [] };
      place.names.push(name);
      places.set(device, place);
    } catch (error) {
      checks.push(failedCheck("disk", error));
    }
  }
  if (nowhere.length > 0) {
    checks.push(warn("disk", `not known for ${nowhere.join(", ")}: not made yet`, "Run taskd init"));
  }
  for (const { free, names } of places.values()) checks.push(spaceCheck(names.join(", "), free));
  return checks;
}

function spaceCheck(names: string, free: number): HostCheck {
  const detail = `${formatBytes(free)} free for ${names}`;
  if (free < FULL_BYTES) return fail("disk", detail, "Free some, or move the roots to another disk");
  if (free < SCARCE_BYTES) return warn("disk", detail, "Free some, or lower cache_quota_gb");
  return ok("disk", detail);
}
