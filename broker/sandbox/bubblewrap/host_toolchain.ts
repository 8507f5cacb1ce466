/**
 * What identifies the programs of the host that sandboxes build with: their places, sizes and times of change, and the
 * system's release. What was built with others is not to be used again, as it is not with another image.
 *
 * It is looked at for each task, since the host's programs change while the broker runs.
 */

import type { Clock } from "../../../lib/clock.ts";
import { runProcess } from "../../../lib/process.ts";
import { sha256Hex } from "../../../lib/sha256.ts";
import { words } from "../../../lib/text/words.ts";
import { SYSTEM_PATH } from "./bubblewrap_arguments.ts";
import type { HostView } from "./host_view.ts";

/** What package managers of the cache are, run by, or compile with. */
const TOOLS = words(`
  node npm pnpm yarn bun deno python python3 pip pip3 uv poetry pipenv pdm cargo rustc go ruby gem bundle php composer
  java javac mvn gradle dotnet cc c++ gcc g++ clang clang++ ld make cmake
`);
const RELEASE = words("/etc/os-release /etc/debian_version");
const DEADLINE_MS = 10_000;
const MAX_BYTES = 1 << 20;

/** @throws {TaskdError} When it cannot be learned, and nothing is to be reused. */
export async function hostToolchain(
  { folders, path }: HostView,
  { clock, signal }: { clock: Clock; signal: AbortSignal | undefined },
): Promise<string> {
  const places = new Set([...path, ...SYSTEM_PATH]);
  const programs = [...places].flatMap((folder) => TOOLS.map((name) => `${folder}/${name}`));
  // Most are not there, which is a complaint and an exit code.
  const { stdout } = await runProcess("/usr/bin/stat", {
    args: ["--dereference", "--format=%n %s %.9Y", "--", ...RELEASE, ...folders, ...programs],
    deadline_ms: DEADLINE_MS,
    max_bytes: MAX_BYTES,
    clock,
    attempted: "Cannot look at the toolchain of this machine",
    signal,
  });
  return sha256Hex(new TextDecoder().decode(stdout));
}
