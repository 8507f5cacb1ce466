/**
 * Programs written in Go that tests need, built from a pinned version and kept in a cache
 * outside the project: `$XDG_CACHE_HOME/taskd-tests`, default `~/.cache/taskd-tests`. The
 * name of a binary holds its version, so a new pin builds anew.
 */

import { existsSync } from "@std/fs/exists";
import { join } from "@std/path/join";

/** A program and where its source is. */
export interface GoTool {
  /** Name of the command. */
  name: string;
  /** Package path of the command. */
  package: string;
  /** Version of its module. */
  version: string;
}

function cacheDirectory(): string {
  const home = Deno.env.get("XDG_CACHE_HOME") ?? join(Deno.env.get("HOME") ?? "/root", ".cache");
  return join(home, "taskd-tests", "bin");
}

/** Path of the program's binary, which is built if it is not there yet. Fails where Go is missing. */
export async function goTool(tool: GoTool): Promise<string> {
  const directory = cacheDirectory();
  const path = join(directory, `${tool.name}-${tool.version}`);
  if (existsSync(path)) return path;
  await Deno.mkdir(directory, { recursive: true });
  // Test files run in parallel: one builds, the others wait for it.
  using lock = await Deno.open(join(directory, `${tool.name}.lock`), { create: true, write: true });
  await lock.lock(true);
  if (existsSync(path)) return path;
  const build = await Deno.makeTempDir({ dir: directory });
  try {
    await install(tool, build);
    await Deno.rename(join(build, tool.name), path);
  } finally {
    await Deno.remove(build, { recursive: true });
  }
  return path;
}

async function install(tool: GoTool, directory: string): Promise<void> {
  const source = `${tool.package}@${tool.version}`;
  let output: Deno.CommandOutput;
  try {
    output = await new Deno.Command("go", {
      args: ["install", "-trimpath", "-ldflags=-s -w", source],
      env: { GOBIN: directory, CGO_ENABLED: "0" },
      stdin: "null",
      stdout: "null",
      stderr: "piped",
    }).output();
  } catch (cause) {
    throw new Error(`Cannot build ${source}: go cannot be run; install Go 1.25 or newer`, { cause });
  }
  if (!output.success) {
    throw new Error(`Cannot build ${source}: ${new TextDecoder().decode(output.stderr).slice(-2000)}`);
  }
}
