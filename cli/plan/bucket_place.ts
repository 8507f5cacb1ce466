/**
 * What a location in S3 means for a call: which server, which workspace, and what may
 * be touched for it. Loaded only when a call names a bucket.
 */

import { s3Access } from "../../lib/backend/s3_permissions.ts";
import { TaskdError } from "../../lib/errors.ts";
import { isHost } from "../../lib/http/address.ts";
import type { S3StoreOptions } from "../../lib/store/open.ts";
import { defaultWorkspace, parseS3Location } from "../../lib/store/s3_location.ts";
import type { FlagValue, S3Plan } from "./plan.ts";
import type { LaunchContext } from "./locations.ts";

export interface BucketPlace {
  /** `s3://bucket/prefix` */
  store: string;
  s3: S3Plan;
}

export function bucketPlace(location: string, flags: Record<string, FlagValue>, context: LaunchContext): BucketPlace {
  const { bucket, url } = parseS3Location(location);
  const options: S3StoreOptions = {
    ...(typeof flags["s3-endpoint"] === "string" ? { endpoint: endpointUrl(flags["s3-endpoint"]) } : {}),
    ...(typeof flags["s3-region"] === "string" ? { region: regionName(flags["s3-region"]) } : {}),
    ...(typeof flags["s3-path-style"] === "boolean" ? { path_style: flags["s3-path-style"] } : {}),
  };
  return { store: url, s3: { options, access: s3Access({ bucket, ...options }, context) } };
}

/** The directory of a bucket store's checkouts, caches, locks and socket on this host. */
export function bucketWorkspace(
  { store, s3 }: BucketPlace,
  flags: Record<string, FlagValue>,
  { home, absolute }: LaunchContext,
): string {
  if (typeof flags.workspace === "string") return flags.workspace;
  if (home === undefined) {
    throw new TaskdError("usage", `Cannot use ${store}: HOME is not set, so there is no place for its checkouts`, {
      hint: "Set it, or name a directory with --workspace or BSTORE_WORKSPACE",
    });
  }
  const { endpoint } = s3.options;
  return absolute(defaultWorkspace(store, { home, ...(endpoint === undefined ? {} : { endpoint }) }));
}

/** The URL in one spelling, because the name of the workspace depends on it. Never shown: it may hold a password. */
function endpointUrl(text: string): string {
  const refuse = (why: string) =>
    new TaskdError("usage", `Cannot use the S3 endpoint: ${why}`, {
      hint: "Write --s3-endpoint or BSTORE_S3_ENDPOINT as http://host:port or https://host",
    });
  const url = URL.parse(text);
  if (url === null || !/^https?:$/.test(url.protocol)) throw refuse("it is no http or https URL");
  if (!isHost(url.hostname)) throw refuse("its host is none");
  if (url.username !== "" || url.password !== "") throw refuse("it must not hold credentials");
  if (url.search !== "" || url.hash !== "") throw refuse("it must end with its path");
  return `${url.origin}${url.pathname.replace(/\/+$/, "")}`;
}

/** It becomes part of a host's name. */
function regionName(text: string): string {
  if (/^[a-z0-9][a-z0-9-]{0,62}$/.test(text)) return text;
  throw new TaskdError("usage", `Cannot use ${JSON.stringify(text.slice(0, 80))} as a region of S3`, {
    hint: "Write --s3-region as AWS does: eu-central-1",
  });
}
