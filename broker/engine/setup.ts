/**
 * The setup phase as the engine asks for it: the profile's commands together with the repository's dependency cache.
 */

import type { Clock } from "../../lib/clock.ts";
import type { DependencyCache } from "../cache/dependency_cache.ts";
import { findLockfiles } from "../cache/lockfiles.ts";
import { cacheEnv } from "../cache/package_managers.ts";
import type { Git } from "../git/git.ts";
import { runSetup } from "./profile/run_setup.ts";
import type { SandboxRuntime } from "../sandbox/runtime.ts";
import type { Settings } from "../settings/settings.ts";
import type { SetupRequest, SetupResult } from "./engine_deps.ts";
import { containerOf } from "./workload.ts";

export interface SetupDeps {
  settings: Pick<Settings, "sandbox_image" | "network">;
  runtime: SandboxRuntime;
  /** The runtime's version: it may decide what package managers download. */
  runtime_version: string;
  cache: DependencyCache;
  git: Git;
  clock: Clock;
}

export function setupRunner(deps: SetupDeps): (request: SetupRequest) => Promise<SetupResult> {
  const { settings, runtime, cache, git, clock } = deps;
  return async (request) => {
    const { profile, repo, git_dir, base_commit, signal } = request;
    const container = containerOf(request.order, settings);
    const host_toolchain = profile.cache && runtime.toolchain ? [await runtime.toolchain(signal)] : [];
    const use = await cache.use({
      repo: repo.canonical,
      lockfiles: profile.cache ? await findLockfiles(git, { git_dir, commit: base_commit, signal }) : [],
      toolchain: [runtime.name, deps.runtime_version, ...host_toolchain].join(" "),
      arch: container.platform ?? Deno.build.arch,
      setup_commands: profile.setup,
      image: await runtime.imageDigest?.(container.image, signal) ?? container.image,
      enabled: profile.cache,
      signal,
    });
    if (use.setup_mount !== undefined) request.onFolder(use.setup_mount.source);
    try {
      const result = await runSetup({ ...request, task_id: request.order.id, runtime, container, cache: use, clock });
      const { agent_mount } = use;
      return {
        ...result,
        mounts: agent_mount === undefined ? [] : [agent_mount],
        env: agent_mount === undefined ? {} : cacheEnv("agent"),
        release: () => use.release(),
      };
    } catch (error) {
      await use.release();
      throw error;
    }
  };
}
