/**
 * Builds the two images: from a registry's base with a Containerfile, or from nothing with debootstrap and npm where no
 * registry can be reached.
 */

import type { ContainerKind } from "../runtime.ts";
import { words } from "../../../lib/text/words.ts";
import { join } from "@std/path/join";
import { systemClock } from "../../../lib/clock.ts";
import { TaskdError } from "../../../lib/errors.ts";
import { withFileError } from "../../../lib/fs.ts";
import { readLines } from "../output_lines.ts";
import { ContainerProgram } from "../container_program.ts";
import { setVariables, TOOL_VARIABLES } from "../host_programs.ts";
import { AGENT_ID } from "../agent_user.ts";
import { ENTRYPOINT } from "../container_arguments.ts";
import { anchorContainerfile, sandboxContainerfile } from "./containerfiles.ts";
import { ENTRYPOINT_SCRIPT } from "./entrypoint.ts";
import { agentPackages, DEBIAN_PACKAGES, NODE_VERSION, SUITE } from "./recipe.ts";
import { ROOT_FILE_SYSTEM_SCRIPT } from "./root_file_system.ts";

export interface BuildImagesOptions {
  runtime: { name: ContainerKind; path: string };
  images: { sandbox: string; anchor: string };
  from: "registry" | "debootstrap";
  /** Base of the sandbox's image in a registry, by tag or digest; with `debootstrap`, the mirror of Debian's packages. */
  base?: string;
  env: (name: string) => string | undefined;
  signal?: AbortSignal | undefined;
  onProgress?: (progress: { step: string } | { line: string }) => void;
}

/** Environment variables that a build may use: where packages come from. */
const BUILD_VARIABLES = words(`
  HTTP_PROXY HTTPS_PROXY NO_PROXY http_proxy https_proxy no_proxy NODE_EXTRA_CA_CERTS SSL_CERT_FILE
  NPM_CONFIG_REGISTRY npm_config_registry
`);

/** Builds both; throws `sandbox_failed` with the last lines of what failed. */
export async function buildImages(options: BuildImagesOptions): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "taskd-images-" });
  try {
    await Deno.writeTextFile(join(folder, "entrypoint"), ENTRYPOINT_SCRIPT, { mode: 0o755 });
    if (options.from === "registry") await fromRegistry(options, folder);
    else await fromDebootstrap(options, folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

async function fromRegistry(options: BuildImagesOptions, folder: string): Promise<void> {
  const { runtime, images, base, onProgress } = options;
  const recipes = [
    { name: images.anchor, file: "Containerfile.anchor", text: anchorContainerfile(), base: undefined },
    { name: images.sandbox, file: "Containerfile", text: sandboxContainerfile(agentPackages()), base },
  ];
  for (const recipe of recipes) {
    onProgress?.({ step: recipe.name });
    const path = join(folder, recipe.file);
    await Deno.writeTextFile(path, recipe.text);
    const args = [
      "build",
      ...(recipe.base === undefined ? [] : [`--build-arg=BASE=${recipe.base}`]),
      `--file=${path}`,
      `--tag=${recipe.name}`,
      folder,
    ];
    await run(options, runtime.path, { args, attempted: `Cannot build the image ${recipe.name}` });
  }
}

async function fromDebootstrap(options: BuildImagesOptions, folder: string): Promise<void> {
  const { runtime, images, base = "", onProgress } = options;
  if (runtime.name === "container" || Deno.build.os !== "linux" || Deno.uid() !== 0) {
    throw new TaskdError("usage", "Cannot build images with debootstrap: that takes root on Linux, podman or docker", {
      hint: "Build from a registry, or on another machine, and load the images here",
    });
  }
  const [root, anchor_root] = [join(folder, "root"), join(folder, "anchor")];
  const arch = Deno.build.arch === "aarch64" ? "arm64" : "x64";
  await run(options, "/bin/sh", {
    args: ["-c", ROOT_FILE_SYSTEM_SCRIPT],
    env: {
      ROOT: root,
      ANCHOR_ROOT: anchor_root,
      SUITE,
      MIRROR: base,
      DEBIAN: DEBIAN_PACKAGES.join(","),
      PACKAGES: [`node-linux-${arch}@${NODE_VERSION}`, ...agentPackages()].join(" "),
      ENTRYPOINT,
      ENTRYPOINT_FILE: join(folder, "entrypoint"),
      AGENT_ID: String(AGENT_ID),
    },
    attempted: "Cannot make the sandbox's root file system",
  });
  for (const [name, path] of [[images.anchor, anchor_root], [images.sandbox, root]] as const) {
    onProgress?.({ step: name });
    await importImage(options, { name, root: path, folder });
  }
}

/**
 * A shell knows how the last of a pipe's programs has ended, and no more. So the image gets its name only once tar is known
 * to have put everything into it, and tar's messages come last.
 */
const IMPORT_SCRIPT = String.raw`set -u
imported=0
id=$({ tar -C "$ROOT" -c . 2>"$FOLDER/tar.messages" || echo "$?" >"$FOLDER/tar.failed"; } | "$PROGRAM" import -) || imported=$?
if [ -e "$FOLDER/tar.failed" ]; then
  tail -n 3 "$FOLDER/tar.messages" >&2
  [ "$imported" -eq 0 ] || exit "$imported"
  "$PROGRAM" rmi "$id" >/dev/null 2>&1
  exit "$(cat "$FOLDER/tar.failed")"
fi
[ "$imported" -eq 0 ] || exit "$imported"
"$PROGRAM" tag "$id" "$IMAGE"
`;

/**
 * @param made `folder` is for notes, and empty.
 * @throws {TaskdError} `sandbox_failed` with the last lines of what failed; an image of that name is then the one before.
 */
export async function importImage(
  options: Pick<BuildImagesOptions, "runtime" | "env" | "signal" | "onProgress">,
  { name, root, folder }: { name: string; root: string; folder: string },
): Promise<void> {
  await run(options, "/bin/sh", {
    args: ["-c", IMPORT_SCRIPT],
    env: { ROOT: root, FOLDER: folder, PROGRAM: options.runtime.path, IMAGE: name },
    attempted: `Cannot import the image ${name}`,
  });
}

const LAST_LINES = 5;

async function run(
  { env, signal, onProgress }: Pick<BuildImagesOptions, "env" | "signal" | "onProgress">,
  path: string,
  call: { args: readonly string[]; env?: Readonly<Record<string, string>>; attempted: string },
): Promise<void> {
  const program = new ContainerProgram({ path, env, clock: systemClock });
  const child = withFileError(`${call.attempted}: cannot start ${path}`, () =>
    new Deno.Command(path, {
      args: [...call.args],
      env: { ...program.env, ...setVariables(env, [...TOOL_VARIABLES, ...BUILD_VARIABLES]), ...call.env },
      clearEnv: true,
      stdin: "null",
      stdout: "piped",
      stderr: "piped",
      ...(signal === undefined ? {} : { signal }),
    }).spawn());
  const last: string[] = [];
  const take = (text: string) => {
    last.push(text);
    if (last.length > LAST_LINES) last.shift();
    if (text.startsWith("== ")) onProgress?.({ step: text.slice(3) });
    else onProgress?.({ line: text });
  };
  const budget = { left_bytes: Infinity, truncated: false };
  const [{ success, code }] = await Promise.all([
    child.status,
    readLines(child.stdout, budget, take),
    readLines(child.stderr, budget, take),
  ]);
  signal?.throwIfAborted();
  if (success) return;
  const output = last.map((line) => line.trim()).filter((line) => line !== "").join("; ");
  throw new TaskdError("sandbox_failed", `${call.attempted}: it ended with code ${code}${output && `: ${output}`}`, {
    hint: "Where no registry can be reached, build with --from debootstrap",
  });
}
