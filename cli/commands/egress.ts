/**
 * The commands about what sandboxes may reach: egress suggest, allow, grant. `suggest` reads the proxy's log and `allow`
 * changes egress.yaml, whether or not a broker runs; `grant` is for a task that runs.
 */

import { join } from "@std/path/join";
import { ACCESS_LOG_NAME } from "../../broker/egress/access_log.ts";
import { EgressRules } from "../../broker/egress/egress_rules.ts";
import { type EgressTarget, formatTarget, parseAuthority } from "../../broker/egress/host_name.ts";
import { type RefusedName, RefusedNames } from "../../broker/egress/refused_names.ts";
import { EGRESS_FIELD, loadSettings } from "../../broker/settings/load.ts";
import { readPrivateFile } from "../../broker/settings/private_file.ts";
import { systemClock } from "../../lib/clock.ts";
import { TaskdError } from "../../lib/errors.ts";
import { writeFileAtomic } from "../../lib/fs.ts";
import { formatDuration } from "../../lib/text/duration.ts";
import { plural } from "../../lib/text/plural.ts";
import type { Args } from "../plan/args.ts";
import { brokerCommand, localCommand } from "../plan/command_module.ts";
import { allowInEgress } from "../setup/egress_edit.ts";
import { textTable } from "../text/text_table.ts";
import { environment } from "./_environment.ts";
import { age } from "./_task_text.ts";
import { parseSince } from "./stats.ts";

/** Names that were refused because no list has them, and are not listed now either. */
export const suggest = localCommand({
  async run(args) {
    const { settings, egress } = await loadSettings({ home: args.broker.home, env: environment(args) });
    const since = args.text("since");
    const names = new RefusedNames(since === undefined ? 0 : parseSince(since, systemClock.now()));
    const path = join(settings.squid_run_dir, ACCESS_LOG_NAME);
    for (const log of [`${path}.0`, path]) await names.read(log);
    const rules = new EgressRules(egress);
    return { refused: names.list().filter((name) => rules.match(name).listed === "no") };
  },
  async render({ refused }: { refused: RefusedName[] }, { columns }) {
    if (refused.length === 0) return "Nothing was refused that the list does not have by now";
    const now_ms = systemClock.now();
    const rows = refused.map((name) => [
      formatTarget(name),
      `${name.tasks}`,
      `${name.requests}`,
      age(new Date(name.last_ms).toISOString(), now_ms),
    ]);
    const head = ["HOST", "TASKS", "REQUESTS", "LAST"];
    const table = await textTable(rows, { head, right: [1, 2, 3], names: [0], columns });
    return `${table}\n\nTasks chose these names. Allow one that you know with: taskd egress allow HOST:PORT`;
  },
});

/** Adds a host to egress.yaml. */
export const allow = localCommand({
  async run(args) {
    const target = targetOf(args);
    const resolved = await loadSettings({ home: args.broker.home, env: environment(args) });
    const field = resolved.fields().find(({ setting }) => setting === EGRESS_FIELD)!;
    const { path } = field.value as { path: string };
    const before = await readPrivateFile(path, "own") ?? "";
    const after = allowInEgress(path, before, target);
    if (after !== before) await writeFileAtomic(path, new TextEncoder().encode(after), 0o600);
    return { target: formatTarget(target), path, changed: after !== before };
  },
  render: ({ target, path, changed }) =>
    changed
      ? `Allowed ${target} in ${path}; it takes effect with: taskd start`
      : `${path} allows ${target} already; where a broker refuses it, run: taskd start`,
});

/** Opens a host to one task that runs. */
export const grant = brokerCommand({
  async run(args, _io, broker) {
    const { id } = await broker.task(args.positional("id"));
    const target = targetOf(args);
    const for_ms = args.numberOf("for");
    const uses = args.number("uses");
    await broker.grantEgress(id, { ...target, for_ms, ...(uses === undefined ? {} : { uses }) });
    return { id, target: formatTarget(target), for_ms, ...(uses === undefined ? {} : { uses }) };
  },
  render: ({ id, target, for_ms, uses }) =>
    `Task ${id} may reach ${target} for ${formatDuration(for_ms)}${
      uses === undefined ? "" : `, for ${plural(uses, "connection")} at most`
    }`,
});

function targetOf(args: Args): EgressTarget {
  const written = args.positional("host");
  const target = parseAuthority(written, 443);
  if (typeof target !== "string") return target;
  const why = target === "address_literal" ? "it is an address, and only names can be allowed" : "it is no host name";
  throw new TaskdError("usage", `Cannot take ${JSON.stringify(written.slice(0, 300))}: ${why}`, {
    hint: "Write host:port, such as api.example.com:443",
  });
}
