/**
 * The agents' own programs as people have them on their machines, at the versions that the image has: installed by npm
 * once, and kept for the tests that run them behind bubblewrap.
 */

import { existsSync } from "@std/fs/exists";
import { dirname } from "@std/path/dirname";
import { agentPackages, NODE_VERSION } from "../../broker/sandbox/images/recipe.ts";
import { AGENTS } from "../../broker/agents.ts";
import { type ReadHostView, readHostView } from "../../broker/sandbox/bubblewrap/host_view.ts";
import { bubblewrapTest, WITHOUT_BUBBLEWRAP } from "./bubblewrap.ts";

const NPM = "/usr/bin/npm";
const INSTALL_LIMIT_S = 600;

/** How the programs are laid out: `nvm` below a version of node, `npm` in a prefix beside it. */
export type AgentLayout = "nvm" | "npm";

/** Defines a test that needs the programs. */
export function hostAgentsTest(
  name: string,
  run: (t: Deno.TestContext) => Promise<void>,
  define: (definition: Deno.TestDefinition) => void = Deno.test,
): void {
  const missing = WITHOUT_BUBBLEWRAP === undefined && !existsSync(NPM) ? `${NPM} is not installed` : undefined;
  if (missing === undefined) return bubblewrapTest(name, run, define);
  define({ name: `${name} (ignored: ${missing})`, ignore: true, fn: run });
}

/**
 * What sandboxes see where the programs lie in one of the layouts; they are installed when they are not there, by one
 * process at a time. Nothing of `/tmp` is shown to sandboxes, so they are kept in `/var/tmp`.
 */
export async function hostAgentsView(layout: AgentLayout): Promise<ReadHostView> {
  const home = await installed();
  const nvm = `${home}/.nvm/versions/node/v${NODE_VERSION}/bin`;
  const path = layout === "nvm" ? [nvm] : [`${home}/.npm-global/bin`, `${home}/node/bin`];
  const programs = AGENTS.map(({ label }) => label);
  return readHostView({ path: [...path, "/usr/bin"].join(":"), home, programs, read: [], own: [`${home}/.taskd`] });
}

/** Installs into folders beside each other; the second layout has the first one's files by other names. */
const INSTALL = String.raw`set -eu
umask 022
home=$1 version=$2
shift 2
nvm=$home/.nvm/versions/node/v$version
mkdir -p "$nvm/bin" "$home/node/bin" "$home/.npm-global"
npm install --prefix "$home/unpacked" --no-audit --no-fund --loglevel=error "node-linux-$ARCH@$version" >&2
cp "$home/unpacked/node_modules/node-linux-$ARCH/bin/node" "$nvm/bin/node"
ln "$nvm/bin/node" "$home/node/bin/node"
PATH=$nvm/bin:$PATH npm install --global --prefix "$nvm" --no-audit --no-fund --loglevel=error "$@" >&2
cp -al "$nvm/lib" "$home/.npm-global/lib"
cp -a "$nvm/bin" "$home/.npm-global/bin"
rm -r "$home/.npm-global/bin/node" "$home/unpacked"
`;

async function installed(): Promise<string> {
  const packages = agentPackages();
  const made_of = new TextEncoder().encode(JSON.stringify([INSTALL, packages, NODE_VERSION]));
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", made_of)).toHex().slice(0, 16);
  const home = `/var/tmp/taskd-test-agents/${digest}`;
  if (existsSync(home)) return home;
  await Deno.mkdir(dirname(home), { recursive: true });
  using lock = Deno.openSync(`${home}.lock`, { create: true, write: true });
  await lock.lock(true);
  if (existsSync(home)) return home;
  const made = await Deno.makeTempDir({ dir: dirname(home) });
  try {
    await Deno.chmod(made, 0o755);
    const { success, stderr } = await new Deno.Command("/usr/bin/timeout", {
      args: [String(INSTALL_LIMIT_S), "/bin/sh", "-c", INSTALL, "install", made, NODE_VERSION, ...packages],
      env: { ARCH: Deno.build.arch === "aarch64" ? "arm64" : "x64" },
      stdin: "null",
    }).output();
    if (!success) throw new Error(`the agents cannot be installed: ${new TextDecoder().decode(stderr).slice(-2_000)}`);
    await Deno.rename(made, home);
  } catch (error) {
    await Deno.remove(made, { recursive: true });
    throw error;
  }
  return home;
}
