/**
 * From a parsed call to its plan: where the store, its workspace and the socket are, and who
 * does the work. Runs before permissions are narrowed, so it only looks.
 */

import { TaskdError } from "../../lib/errors.ts";
import { exists } from "../../lib/fs.ts";
import { requireTrusted } from "../../lib/trusted_path.ts";
import { checkSocketPath, DEFAULT_STORE, isBucket, type LaunchContext, storeDirectory } from "./locations.ts";
import type { CommandSpec } from "./command_spec.ts";
import type { FlagValue, Plan, Route, S3Plan } from "./plan.ts";

export async function planCall(
  call: { spec: CommandSpec; positionals: Record<string, string>; flags: Record<string, FlagValue> },
  context: LaunchContext,
): Promise<Plan> {
  const { spec, positionals, flags } = call;
  const dumb = context.env("TERM") === "dumb";
  const plan = { command: spec.name, positionals, flags, ...(dumb ? { dumb } : {}) };
  if (spec.uses === "nothing") return { ...plan, ...NO_STORE };
  if (spec.uses === "broker" || spec.uses === "home") {
    requireRepository(spec, positionals);
    const { brokerPlace } = await import("./broker_place.ts");
    return { ...plan, ...NO_STORE, broker: await brokerPlace(spec, flags, context) };
  }
  if (spec.uses === "stores") {
    const ends = spec.positionals.filter(({ kind }) => kind === "store").map(({ name }) => name);
    const { places, ...s3 } = await placeStores(ends, positionals, { flags, context });
    return { ...plan, ...NO_STORE, positionals: { ...positionals, ...places }, ...s3 };
  }
  const place = await storePlace(String(flags.store), flags, context);
  // What no one has named is used only where no other user could have put it.
  const unnamed = place.s3 === undefined ? flags.store === DEFAULT_STORE : typeof flags.workspace !== "string";
  if (unnamed) requireTrusted(`${context.home}/.taskd`, "home");
  const others = spec.flags.filter(({ kind }) => kind === "store").map(({ name }) => name);
  const { places, ...s3 } = await placeStores(others, flags, { flags, context, s3: place.s3 });
  const named = typeof flags.socket === "string" ? flags.socket : undefined;
  const live = spec.uses === "serve" || named !== undefined ? undefined : await context.daemonSocket(place.workspace);
  const socket = named ?? live ?? `${place.workspace}/taskd.sock`;
  const route = routeOf(spec, { live: live !== undefined, named: named !== undefined });
  if (route === "socket" || spec.uses === "serve") checkSocketPath(socket);
  // A person who named no location cannot have misspelled it.
  const makes_store = spec.makes_store === true || flags.store === DEFAULT_STORE;
  return { ...plan, ...place, ...s3, flags: { ...flags, ...places }, makes_store, socket, route };
}

/** The broker sees little of the disk: a repository that is not there is refused here, before it is a task. */
function requireRepository(spec: CommandSpec, positionals: Record<string, string>): void {
  for (const { kind, name } of spec.positionals) {
    const repo = positionals[name];
    if (kind !== "repo" || repo === undefined || !repo.startsWith("/") || exists(repo)) continue;
    throw new TaskdError("not_found", `Cannot ${spec.name}: there is no ${repo}`, {
      hint: "Name a repository on this machine, or https://host/owner/repo",
    });
  }
}

const NO_STORE = { store: "", workspace: "", socket: "", route: "none" } as const;

async function storePlace(
  location: string,
  flags: Record<string, FlagValue>,
  context: LaunchContext,
): Promise<Pick<Plan, "store" | "workspace" | "s3">> {
  if (isBucket(location)) {
    const { bucketPlace, bucketWorkspace } = await import("./bucket_place.ts");
    const place = bucketPlace(location, flags, context);
    return { ...place, workspace: bucketWorkspace(place, flags, context) };
  }
  const directory = storeDirectory(location, context);
  if (typeof flags.workspace === "string") {
    throw new TaskdError("usage", `Cannot use ${flags.workspace} as a workspace: ${directory} is its own`, {
      hint: "Leave --workspace and BSTORE_WORKSPACE to stores in S3",
    });
  }
  return { store: directory, workspace: directory };
}

/** Where the stores are that `words` have under these names, if they have one. All buckets are on one server. */
async function placeStores(
  names: string[],
  words: Record<string, FlagValue>,
  { flags, context, s3 }: { flags: Record<string, FlagValue>; context: LaunchContext; s3?: S3Plan | undefined },
): Promise<{ places: Record<string, string>; s3?: S3Plan }> {
  const places: Record<string, string> = {};
  for (const name of names) {
    const location = words[name];
    if (typeof location !== "string") continue;
    if (!isBucket(location)) {
      places[name] = storeDirectory(location, context);
      continue;
    }
    const { bucketPlace } = await import("./bucket_place.ts");
    const place = bucketPlace(location, flags, context);
    places[name] = place.store;
    const net = [...new Set([...s3?.access.net ?? [], ...place.s3.access.net])];
    s3 = { ...place.s3, access: { ...place.s3.access, net } };
  }
  return { places, ...(s3 === undefined ? {} : { s3 }) };
}

/** A socket that is named is meant: the work goes there, or fails. */
function routeOf(spec: CommandSpec, daemon: { live: boolean; named: boolean }): Route {
  if (spec.uses === "daemon") return "socket";
  if (spec.uses === "branches") return daemon.live || daemon.named ? "socket" : "store";
  return spec.uses === "store" ? "store" : "none";
}
