/** The command `taskd serve`. */

import { checkToken } from "../../daemon/http/auth.ts";
import { type HttpListenOptions, serve } from "../../daemon/serve.ts";
import { TaskdError } from "../../lib/errors.ts";
import { DEFAULT_LEVELS_TEXT, parseLevels } from "../../lib/store/retention.ts";
import type { Args } from "../plan/args.ts";
import type { Io } from "../text/io.ts";

/** Serves until it is interrupted. Under --json it prints one object once it serves; the log is on stderr. */
export async function run(args: Args, io: Io): Promise<undefined> {
  const { store, workspace, s3, socket, machine, open_files } = args.plan;
  const daemon = await serve({
    store,
    workspace,
    ...(s3 === undefined ? {} : { s3 }),
    socket,
    host: machine,
    open_files,
    flush_every_ms: args.numberOf("flush-every"),
    snapshot_every: args.numberOf("snapshot-every"),
    reap_every_ms: args.numberOf("reap-every"),
    gc_grace_ms: args.numberOf("gc-grace"),
    keep: parseLevels(args.text("keep") ?? DEFAULT_LEVELS_TEXT),
    ro_cache_budget_bytes: args.numberOf("ro-cache-budget"),
    scrub_every_ms: args.numberOf("scrub-every"),
    ...http(args),
    log: (line) => io.note(line),
    signal: io.signal,
  });
  if (io.json) {
    io.outJson({
      ok: true,
      store: daemon.store,
      socket: daemon.socket,
      ...(daemon.http ? { http: daemon.http } : {}),
      pid: Deno.pid,
    });
  }
  const unclosed = await daemon.finished;
  if (unclosed.length === 0) return;
  const which = unclosed.map(({ address, error }) => `${address} (${error})`).join(", ");
  throw new TaskdError("session_failed", `Stopped, but could not close every session: ${which}`, {
    hint: "What was not made durable is still in the checkouts",
  });
}

function http(args: Args): { http?: HttpListenOptions } {
  const [address, token] = [args.text("http"), args.text("token")];
  // Also without a listener: a token that is too short is always a mistake.
  if (token !== undefined) checkToken(token);
  if (address === undefined) return {};
  const allow_non_loopback = args.on("http-allow-non-loopback");
  return { http: { address, allow_non_loopback, ...(token === undefined ? {} : { token }) } };
}
