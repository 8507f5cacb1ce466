/**
 * Adds a host to egress.yaml; comments and everything else stay as they are. The result is parsed as the broker parses
 * it, and compared: it allows what it did and what was asked for, or the change is refused.
 */

import { isMap, isSeq, parseDocument } from "yaml";
import type { EgressList } from "../../broker/egress/egress_rules.ts";
import { type EgressTarget, formatTarget } from "../../broker/egress/host_name.ts";
import { parseEgress } from "../../broker/settings/egress_file.ts";
import { TaskdError } from "../../lib/errors.ts";

/**
 * The text with `target` allowed; as it is where it allows that by name already.
 *
 * @param file Path, for messages.
 * @throws {TaskdError} `invalid_config` for a file that cannot be used, for a host that may not be listed, and for a form
 * that cannot be changed safely.
 */
export function allowInEgress(file: string, text: string, target: EgressTarget): string {
  const before = parseEgress(file, text);
  const requested = withTarget(before, target);
  if (same(before, requested)) return text;
  const document = parseDocument(text);
  let allow = document.get("allow", true);
  if (!isSeq(allow)) document.set("allow", allow = document.createNode([]));
  if (!isSeq(allow)) throw unclear(file, target);
  // A list in brackets would put what is added on its line.
  if (allow.items.length === 0) allow.flow = false;
  const index = before.entries.findIndex(({ host }) => host === target.host);
  const entry = document.createNode({ host: target.host, ports: requested.entries.at(index)!.ports });
  if (index < 0) allow.add(entry);
  else {
    const listed = allow.items[index];
    if (!isMap(listed)) throw unclear(file, target);
    listed.set("ports", entry.get("ports"));
  }
  const changed = document.toString({ lineWidth: 0 });
  if (!same(parseEgress(file, changed), requested)) throw unclear(file, target);
  return changed;
}

function withTarget({ entries }: EgressList, { host, port }: EgressTarget): EgressList {
  const listed = entries.find((entry) => entry.host === host);
  if (listed === undefined) return { entries: [...entries, { host, ports: [port] }] };
  const ports = [...new Set([...listed.ports, port])].sort((a, b) => a - b);
  return { entries: entries.map((entry) => entry === listed ? { host, ports } : entry) };
}

function same(a: EgressList, b: EgressList): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}

function unclear(file: string, target: EgressTarget): TaskdError {
  return new TaskdError(
    "invalid_config",
    `Cannot allow ${formatTarget(target)} in ${file}: its form is not understood`,
    {
      hint: "Write the host into it by hand",
    },
  );
}
