/** The commands that read and store the content of a branch: checkout, path, checkpoint, compact, export. */

import { hasCode } from "../../lib/errors.ts";
import type { CheckoutResult } from "../../lib/store/results.ts";
import { formatBytes } from "../../lib/text/bytes.ts";
import { plural } from "../../lib/text/plural.ts";
import { sanitizeLine } from "../../lib/text/sanitize.ts";
import { storeCommand } from "../plan/command_module.ts";
import { branchName, noteLeftOut, waitFlag } from "./_result_text.ts";

/** Makes a plain file; prints its path alone, so that a script can use it. */
export const checkout = storeCommand<CheckoutResult>({
  async run(args, io, ops) {
    const onProgress = io.progress(`checkout ${args.positional("address")}`);
    const { checkpoint, ...branch } = args.addressAt("address");
    if (checkpoint !== undefined) return await ops.call("checkout-at", { ...branch, checkpoint }, onProgress);
    return await ops.call("checkout", { ...branch, force: args.on("force"), ...waitFlag(args) }, onProgress);
  },
  render: ({ path }) => path,
});

export const path = storeCommand({
  async run(args, _io, ops) {
    return { path: await (await ops.store()).path(args.address("address")) };
  },
  render: ({ path }) => path,
});

export const checkpoint = storeCommand({
  async run(args, io, ops) {
    const note = args.text("note");
    return await ops.call("checkpoint", {
      ...args.address("branch"),
      name: args.positional("checkpoint"),
      ...(note === undefined ? {} : { note }),
    }, io.progress(`checkpoint ${args.positional("branch")}`));
  },
  render(result) {
    const name = `${branchName(result)}@${result.checkpoint}`;
    const changed = result.pages === 0
      ? "nothing had changed"
      : `${result.kind} of ${plural(result.pages, "page")}, ${formatBytes(result.stored_bytes)} stored`;
    const doubt = result.overwrite_detected === undefined
      ? ""
      : "\nThe store's head may not be what was written: another program writes to the store; see `taskd verify`";
    return `Checkpointed ${name} (txid ${result.txid}, ${changed})${doubt}`;
  },
});

export const compact = storeCommand({
  run: (args, io, ops) =>
    ops.call("compact", args.address("branch"), io.progress(`compact ${args.positional("branch")}`)),
  render(result) {
    const before = plural(result.objects_before, "object");
    return `Compacted ${branchName(result)}: ${before} became one of ${formatBytes(result.stored_bytes)}`;
  },
});

/** Writes a file, after the live session, if there is one, has made its commits durable. */
export const exportFile = storeCommand({
  async run(args, io, ops) {
    const address = args.addressAt("address");
    if (ops.hasDaemon && address.checkpoint === undefined) {
      await ops.call("flush", address).catch((error) => {
        if (!hasCode(error, "no_session")) throw error;
      });
    }
    const exported = await ops.call("export", {
      ...address,
      path: args.positional("file"),
      force: args.on("force"),
      ...waitFlag(args),
    }, io.progress(`export ${args.positional("address")}`));
    return noteLeftOut(exported, io);
  },
  render: (result) => `Wrote ${sanitizeLine(result.path)} (${formatBytes(result.size_bytes)}, txid ${result.txid})`,
});
