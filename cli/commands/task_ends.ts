/** The commands that end tasks and remove their records: deny, kill, prune. */

import { systemClock } from "../../lib/clock.ts";
import { formatBytes } from "../../lib/text/bytes.ts";
import { plural } from "../../lib/text/plural.ts";
import { brokerCommand } from "../plan/command_module.ts";

export const deny = brokerCommand({
  async run(args, _io, broker) {
    const { id } = await broker.task(args.positional("id"));
    await broker.deny(id, args.optional("reason") ?? "");
    return { id };
  },
  render: ({ id }) => `Denied ${id}: nothing is pushed`,
});

/** Ends a task, without waiting until what its agent has asked for is metered; `ended`: whether it already has. */
export const kill = brokerCommand({
  async run(args, _io, broker) {
    const { id } = await broker.task(args.positional("id"));
    await broker.kill(id, args.optional("reason") ?? "");
    return { id, ended: (await broker.task(id)).stage === "done" };
  },
  render({ id, ended }) {
    if (ended) return `Ended ${id}`;
    return `Ending ${id}: its sandbox is being stopped, and an answer that was already asked for is metered, for a ` +
      "minute at most";
  },
});

export const prune = brokerCommand({
  async run(args, _io, broker) {
    // Older than the epoch is older than everything: a date can be no earlier.
    const before = new Date(Math.max(0, systemClock.now() - args.numberOf("older-than"))).toISOString();
    return await broker.prune({ before, dry_run: args.on("dry-run") });
  },
  render({ pruned, mirrors, dry_run }) {
    const lines = mirrors.map(({ repo, bytes }) => `mirror of ${repo}, ${formatBytes(bytes)}`);
    const count = `${plural(pruned.length, "task")} and ${plural(mirrors.length, "mirror")}`;
    return [...pruned, ...lines, `${count} ${dry_run ? "would be removed" : "removed"}`].join("\n");
  },
});
