/**
 * A user of the task broker: a home directory of its own, the program, and the broker as a
 * process of its own.
 */

import { textLines } from "../../support/text_lines.ts";
import { makePlace, type Place, type PlaceOptions } from "./taskd.ts";
import { denoDirectory } from "../../support/deno_directory.ts";

/** A place whose `HOME` is `<base>/home`, and whose sockets are below `<base>`. */
export async function makeBrokerPlace(
  env: Record<string, string> = {},
  options: Pick<PlaceOptions, "open_files"> = {},
): Promise<Place & { home: string }> {
  const deno_dir = await denoDirectory();
  const place = await makePlace({
    ...options,
    env: (base) => ({
      HOME: `${base}/home`,
      TMPDIR: base,
      XDG_RUNTIME_DIR: "",
      DENO_DIR: deno_dir,
      BSTORE_STORE: `${base}/home/.taskd/store`,
      ...env,
    }),
  });
  const home = `${place.base}/home`;
  await Deno.mkdir(home);
  return { ...place, home };
}

/** Settings with which a broker runs anywhere: the embedded runtime, an endpoint that is never asked. */
export const EMBEDDED = `runtime: deno
default_agent: agent_d
compat:
  base_url: http://localhost:9
  model: small
  prices: { default: { input: 1, output: 1 } }
`;

/** `~/.taskd` with these settings. */
export async function configure(place: { home: string }, config: string): Promise<void> {
  await Deno.mkdir(`${place.home}/.taskd`, { recursive: true, mode: 0o700 });
  await Deno.writeTextFile(`${place.home}/.taskd/config.yaml`, config, { mode: 0o600 });
}

/** What `start --json` prints once it serves. */
export interface Hello {
  ok: true;
  pid: number;
  socket: string;
  ui_url: string;
  replaced_pid?: number;
}

/** A broker in the foreground, serving once this resolves. */
export async function startBroker(place: Place, ...flags: string[]) {
  const child = place.start("start", "--json", ...flags);
  const errors = new Response(child.stderr).text();
  const lines = textLines(child.stdout);
  const first = await lines.next();
  if (first.done) throw new Error(`The broker did not start: ${await errors}`);
  const hello = JSON.parse(first.value);
  if (hello.ok !== true) throw new Error(`The broker did not start: ${first.value}`);
  return {
    hello: hello as Hello,
    child,
    /** Its exit status and its log, once it has ended. */
    async ended() {
      const { code } = await child.status;
      return { code, errors: await errors };
    },
    [Symbol.asyncDispose]: async () => {
      try {
        child.kill("SIGKILL");
      } catch {
        // It has ended.
      }
      await child.status;
      await errors;
      await lines.return();
    },
  };
}

/** Whether a process is there. */
export function isAlive(pid: number): boolean {
  try {
    Deno.kill(pid, "SIGCONT");
    return true;
  } catch {
    return false;
  }
}
