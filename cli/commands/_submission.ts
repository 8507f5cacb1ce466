/** What submit and queue add send, from their arguments and flags. */

import type { SubmitRequest } from "../../broker/task/schema.ts";
import { TaskdError } from "../../lib/errors.ts";
import type { Args } from "../plan/args.ts";
import { readInstruction } from "./_instruction.ts";
import type { Io } from "../text/io.ts";
import { SUBMISSION } from "../table/broker_shared.ts";

/** The port when none is written, as in egress.yaml. */
const DEFAULT_PORT = 443;

export async function readSubmission(args: Args, io: Io): Promise<SubmitRequest> {
  const egress_extra = parseEgressFlags(args.texts("egress"));
  const source = { word: args.optional("instruction"), file: args.text("file") };
  const instruction = await readInstruction(source, io.signal);
  const databases = args.texts("database");
  const budget = args.text("budget");
  return {
    repo: args.positional("repo"),
    instruction,
    ...flagsGiven(args),
    ...(budget === undefined ? {} : { budget_usd: parseUsd(budget) }),
    ...(egress_extra.length === 0 ? {} : { egress_extra }),
    ...(databases.length === 0 ? {} : { databases }),
  };
}

function parseUsd(text: string): number {
  if (/^\$?\d{1,9}(\.\d{1,6})?$/.test(text)) return Number(text.replace("$", ""));
  throw new TaskdError("usage", `Cannot read --budget ${JSON.stringify(text.slice(0, 200))}`, {
    hint: "Write dollars: --budget 0.50",
  });
}

/** Flags that are fields of the request by the same name. */
function flagsGiven(args: Args): Partial<SubmitRequest> {
  return Object.fromEntries<never>(
    SUBMISSION.filter(({ name }) => name !== "budget").flatMap(({ name, kind, repeatable }) => {
      const value = kind === "boolean"
        ? args.on(name) || undefined
        : kind === "string" && !repeatable
        ? args.text(name)
        : undefined;
      return value === undefined ? [] : [[name, value as never]];
    }),
  );
}

/** `host`, `host:443` or `host:443,8443`; the ports of a host that is named again are added. */
function parseEgressFlags(flags: readonly string[]): { host: string; ports: number[] }[] {
  const ports_of = new Map<string, number[]>();
  for (const flag of flags) {
    const [, host, list] = /^([^:,\s]+)(?::(\d{1,5}(?:,\d{1,5})*))?$/.exec(flag) ?? [];
    const ports = list?.split(",").map(Number) ?? [DEFAULT_PORT];
    if (host === undefined || ports.some((port) => port < 1 || port > 65_535)) {
      throw new TaskdError("usage", `Cannot read --egress ${JSON.stringify(flag.slice(0, 200))}`, {
        hint: "Write a host's name and its ports: api.example.com:443",
      });
    }
    ports_of.set(host, [...new Set([...ports_of.get(host) ?? [], ...ports])]);
  }
  return [...ports_of].map(([host, ports]) => ({ host, ports }));
}
