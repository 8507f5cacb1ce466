/**
 * Where the task broker is for a call: the setting `broker.socket`, resolved as the broker
 * itself resolves it. Loaded only for commands that have to do with the broker.
 */

import type { Settings } from "../../broker/settings/settings.ts";
import { TaskdError } from "../../lib/errors.ts";
import { requireTrusted } from "../../lib/trusted_path.ts";
import type { CommandSpec } from "./command_spec.ts";
import type { BrokerPlace, FlagValue } from "./plan.ts";
import { checkSocketPath, type LaunchContext } from "./locations.ts";

/** The commands that report what another user could decide about. */
const EXAMINING: ReadonlySet<string> = new Set(["doctor", "setup"]);
/** The commands that make `~/.taskd` and write into it, whatever its settings say. */
const MAKING: ReadonlySet<string> = new Set(["init", "setup"]);

/**
 * Resolves the broker's socket, and for the commands that work with them the settings.
 *
 * @throws {TaskdError} `denied` when another user could decide what is there; `invalid_config` with the file and line, or
 * the variable; for a client that names a socket with
 * `--socket` nothing is read, so that a task can be stopped in spite of a broken file.
 */
export async function brokerPlace(
  spec: CommandSpec,
  flags: Record<string, FlagValue>,
  context: LaunchContext,
): Promise<BrokerPlace> {
  const home = homeOf(context);
  const named = typeof flags.socket === "string" ? flags.socket : undefined;
  if (named !== undefined) checkSocketPath(named);
  if (spec.uses !== "home" && named !== undefined) return { home, socket: named };
  if (MAKING.has(spec.name)) requireTrusted(`${home}/.taskd`, "home");
  // Each is a good part of a client's start, and is loaded only by who needs it.
  const { loadSettings } = await import("../../broker/settings/load.ts");
  const hostOf = async (settings: Settings | undefined) => {
    const { hostPlace } = await import("./broker_host.ts");
    return await hostPlace({
      ...context,
      home,
      settings,
      store: String(flags.store),
      examines: EXAMINING.has(spec.name),
    });
  };
  try {
    const { settings, sources } = await loadSettings({ home, env: context.env });
    const may_differ = spec.uses === "broker" && named === undefined && sources.get("broker.socket") === "default";
    if (may_differ && flags["print-permissions"] !== true) return { home, socket: await ownSocket(home) };
    // As it is spelled: a link on the way could be another user's.
    if (spec.uses === "broker") requireTrusted(settings.broker.socket, "socket");
    const socket = named ?? context.absolute(settings.broker.socket);
    return spec.uses === "home" ? { home, socket, settings, host: await hostOf(settings) } : { home, socket };
  } catch (error) {
    const repairs = spec.uses === "home" && spec.config === "may_be_broken";
    if (!repairs || !(error instanceof TaskdError)) throw error;
    return { home, socket: named ?? "", host: await hostOf(undefined) };
  }
}

/**
 * The socket of the broker that serves this home directory. Without one nothing is asked: what answers at the place of the
 * default may serve another home, and a broker that was started with other variables listens elsewhere.
 */
async function ownSocket(home: string): Promise<string> {
  const { ownBroker } = await import("../../broker/client/home_lock.ts");
  const found = await ownBroker(home);
  if (found?.socket !== undefined) return found.socket;
  const why = found === undefined ? "none runs" : `process ${found.pid} has not opened its socket yet`;
  throw new TaskdError("broker_unreachable", `Cannot ask the broker of ${home}/.taskd: ${why}`, {
    hint: found === undefined ? "Start it with: taskd start" : "Try again in a moment",
  });
}

function homeOf({ home, absolute }: LaunchContext): string {
  if (home === undefined || !home.startsWith("/")) {
    throw new TaskdError("usage", "Cannot find the broker's files: there is no home directory", {
      hint: "Set HOME to an absolute path",
    });
  }
  return absolute(home);
}
