/** The command `taskd doctor`. */

import { LANES, laneText } from "../../broker/agents.ts";
import { findBroker } from "../../broker/client/lifecycle.ts";
import { type CheckStatus, type FoundStore, type HostCheck, worst } from "../setup/check.ts";
import { examine } from "../setup/doctor.ts";
import { untestedVersion } from "../../broker/sandbox/tested_versions.ts";
import { connect } from "../../lib/client/client.ts";
import { readDaemonInfo } from "../../lib/store/daemon_lock.ts";
import type { Args } from "../plan/args.ts";
import { EXIT_FAILURE, EXIT_OK } from "../text/exit_codes.ts";
import type { Io } from "../text/io.ts";
import { cutLine } from "../text/text_table.ts";
import { asking, environment, findOptions, livePolicy } from "./_environment.ts";

export interface DoctorResult {
  status: CheckStatus;
  checks: HostCheck[];
}

export async function run(args: Args, io: Io): Promise<DoctorResult> {
  const checks = await examineHost(args, io);
  return { status: worst(checks), checks };
}

/** All checks of the host; `setup` ends with them too. */
export function examineHost(args: Args, io: Io): Promise<HostCheck[]> {
  const { deno, programs: places, store } = args.host;
  return examine({
    home: args.broker.home,
    uid: Deno.uid() ?? 0,
    env: environment(args),
    ask: asking(args, io.signal),
    askGh: asking(args, io.signal, { credentials: true }),
    places,
    exchangeable_programs: args.host.exchangeable_programs,
    deno: { path: deno, version: Deno.version.deno },
    view: args.host.view,
    untested: ({ name, version }) => untestedVersion(name, version ?? ""),
    findBroker: () => findBroker(findOptions(args)),
    livePolicy: (socket) => livePolicy(socket, io.signal),
    untrusted: () => args.host.untrusted,
    storeDaemon: async () =>
      store === undefined ? undefined : await foundStore(store, args.host.store_socket, io.signal),
  });
}

/** A daemon that opened its socket since this command's permissions were read off is not asked. */
async function foundStore(
  directory: string,
  socket: string | undefined,
  signal: AbortSignal,
): Promise<FoundStore | undefined> {
  const info = await readDaemonInfo(directory);
  if (info === undefined || socket === undefined) return info && { info, sessions: [] };
  const client = await connect(socket, { signal });
  try {
    return { info, sessions: (await client.call("status", {})).sessions };
  } finally {
    client.close();
  }
}

const MARKS: Readonly<Record<CheckStatus, string>> = { ok: "ok  ", warn: "warn", fail: "FAIL" };

export async function render({ status, checks }: DoctorResult, io: Io): Promise<string> {
  return [...await checkLines(checks, io), verdict(status, checks)].join("\n");
}

export async function checkLines(named: readonly HostCheck[], io: Io): Promise<string[]> {
  const checks = named.map((check) => ({ ...check, name: withCompany(check.name) }));
  const width = Math.max(0, ...checks.map(({ name }) => name.length));
  const lines: string[] = [];
  for (const { name, status, detail, remedy } of checks) {
    const line = `${MARKS[status]}  ${name.padEnd(width)}  ${detail}`;
    // A line of a failure is not cut.
    lines.push(status === "ok" && io.columns !== undefined ? await cutLine(line, io.columns) : line);
    if (remedy !== undefined) lines.push(`${" ".repeat(width + 8)}${remedy}`);
  }
  return lines;
}

function withCompany(name: string): string {
  return LANES.reduce((text, lane) => text.replace(lane, laneText(lane)), name);
}

function verdict(status: CheckStatus, checks: readonly HostCheck[]): string {
  const count = (counted: CheckStatus) => checks.filter(({ status }) => status === counted).length;
  if (status === "ok") return "Everything is ready";
  const words = [[count("fail"), "failed"], [count("warn"), "worth a look"]] as const;
  return words.filter(([number]) => number > 0).map(([number, what]) => `${number} ${what}`).join(", ");
}

export function exitCode({ status }: DoctorResult): number {
  return status === "fail" ? EXIT_FAILURE : EXIT_OK;
}
