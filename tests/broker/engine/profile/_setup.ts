/**
 * One setup phase with everything it takes, in folders of its own.
 */

import { systemClock } from "../../../../lib/clock.ts";
import { runSetup, type RunSetupResult, type SetupOptions } from "../../../../broker/engine/profile/run_setup.ts";
import type { Profile } from "../../../../broker/settings/settings.ts";
import { HostRuntime } from "./_host_runtime.ts";

/** What a test sees of a setup phase. */
export interface World extends AsyncDisposable {
  root: string;
  work_dir: string;
  log_path: string;
  runtime: HostRuntime;
  /** What `onLine` received. */
  lines: string[];
  run(profile: Partial<Profile>, options?: Partial<SetupOptions>): Promise<RunSetupResult>;
  log(): Promise<string>;
}

/** Of every task here. */
export const TASK_ID = "0123456789abcdef0123456789abcdef";
/** Of every sandbox here. */
export const PROXY_URL = "http://task:secret@192.168.66.1:3128";

/** `sh -c script`. */
export function sh(script: string): string[] {
  return ["sh", "-c", script];
}

/** Makes the folders. */
export async function makeWorld(): Promise<World> {
  const root = await Deno.makeTempDir({ prefix: "taskd-profile-" });
  const work_dir = `${root}/stage/work`;
  const audit_root = `${root}/audit`;
  await Deno.mkdir(work_dir, { recursive: true });
  await Deno.mkdir(audit_root, { mode: 0o700 });
  const log_path = `${audit_root}/${TASK_ID}.setup.log`;
  const runtime = new HostRuntime();
  const lines: string[] = [];
  return {
    root,
    work_dir,
    log_path,
    runtime,
    lines,
    run: (profile, options = {}) =>
      runSetup({
        task_id: TASK_ID,
        profile: {
          setup: [],
          readiness: [],
          timeout: 60_000,
          cache: false,
          second_look_paths: [],
          checks: [],
          ...profile,
        },
        work_dir,
        runtime,
        container: { image: "image", network: "net" },
        proxy_url: PROXY_URL,
        log_path,
        signal: new AbortController().signal,
        onLine: (line) => lines.push(line),
        clock: systemClock,
        ...options,
      }),
    log: () => Deno.readTextFile(log_path),
    [Symbol.asyncDispose]: () => Deno.remove(root, { recursive: true }),
  };
}
