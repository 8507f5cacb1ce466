/**
 * The real program on a store in a bucket: the environment names the server, as a
 * person would set it up, and the home directory is the place's own.
 */

import type { S3Server } from "../../support/s3_server.ts";
import { makePlace, type Place } from "./taskd.ts";
import { denoDirectory } from "../../support/deno_directory.ts";

/** How a place on a bucket differs from the usual one. */
export interface BucketPlaceOptions {
  /** The store; default one of its own. */
  store?: string;
  /** Stands in front of the server. */
  endpoint?: string;
  /** Over what the environment says otherwise. */
  env?: Record<string, string>;
}

/** A location in the server's bucket that no other test uses. */
export function newLocation({ bucket }: S3Server): string {
  return `s3://${bucket}/t-${crypto.randomUUID()}`;
}

/** Makes a host of its own, with a store in the server's bucket. */
export async function makeBucketPlace(server: S3Server, options: BucketPlaceOptions = {}): Promise<Place> {
  const { access_key_id, secret_access_key } = server.credentials;
  const deno_dir = await denoDirectory();
  return await makePlace({
    store: options.store ?? newLocation(server),
    env: (base) => ({
      HOME: `${base}/home`,
      DENO_DIR: deno_dir,
      BSTORE_S3_ENDPOINT: options.endpoint ?? server.endpoint,
      AWS_ACCESS_KEY_ID: access_key_id,
      AWS_SECRET_ACCESS_KEY: secret_access_key,
      ...options.env,
    }),
  });
}
