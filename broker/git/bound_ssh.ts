/**
 * ssh that connects to an address which was checked, and to no other one that the name may have by then. The host's key
 * is still the one that is known by its name. Where the operator's own ssh configuration leads elsewhere, it decides.
 */

import type { Clock } from "../../lib/clock.ts";
import { runProcess } from "../../lib/process.ts";
import { shellWord } from "../../lib/text/shell_word.ts";
import { type GitCredentials, isSshCommand } from "./credentials.ts";
import { SEARCHED } from "./git.ts";

const DEADLINE_MS = 10_000;
const MAX_BYTES = 256 << 10;

export interface SshTarget {
  /** The name that was looked up. */
  host: string;
  /** As the repository's address has them; empty where it has none. */
  port: string;
  user: string;
  /** What was checked, not empty. */
  addresses: readonly string[];
  /** Ends a question to ssh that is under way. */
  signal: AbortSignal | undefined;
}

/**
 * The credentials with ssh bound to one of the addresses. Unchanged when the operator has another program than ssh, or
 * when its configuration names another host, a proxy or a jump host: then the name is not looked up here.
 *
 * @throws {TaskdError} as `runProcess`.
 */
export async function boundSsh(credentials: GitCredentials, target: SshTarget, clock: Clock): Promise<GitCredentials> {
  const { host, addresses } = target;
  const command = credentials.env.GIT_SSH_COMMAND ?? "";
  if (!isSshCommand(command)) return credentials;
  const settings = await sshSettings(command, target, credentials, clock);
  const proxied = ["proxycommand", "proxyjump"].some((name) => (settings.get(name) ?? "none") !== "none");
  if (settings.get("hostname") !== host || proxied) return credentials;
  const port = settings.get("port") ?? "22";
  const known = settings.get("hostkeyalias") ?? (port === "22" ? host : `[${host}]:${port}`);
  // One name of a host that has both is as good as the other; IPv4 is reached from more networks.
  const address = addresses.find((one) => !one.includes(":")) ?? addresses[0]!;
  const bound = `${command} -oHostName=${address} ${shellWord(`-oHostKeyAlias=${known}`)}`;
  return { ...credentials, env: { ...credentials.env, GIT_SSH_COMMAND: bound } };
}

/** What ssh would do: its settings as `ssh -G` prints them. */
async function sshSettings(
  command: string,
  { host, port, user, signal }: SshTarget,
  { env }: GitCredentials,
  clock: Clock,
): Promise<Map<string, string>> {
  const options = [...port === "" ? [] : ["-p", port], ...user === "" ? [] : ["-l", user]];
  const { stdout } = await runProcess("/bin/sh", {
    // As git starts it.
    args: ["-c", `${command} -G ${[...options, host].map(shellWord).join(" ")}`],
    env: { PATH: SEARCHED, ...env, LC_ALL: "C" },
    deadline_ms: DEADLINE_MS,
    max_bytes: MAX_BYTES,
    on_excess: "cut",
    clock,
    signal,
    attempted: "Cannot ask ssh for its settings",
  });
  const lines = new TextDecoder().decode(stdout).split("\n");
  return new Map(lines.map((line) => [line.split(" ", 1)[0]!, line.slice(line.indexOf(" ") + 1)]));
}
