/**
 * Locations of stores in buckets, `s3://bucket/prefix`, and where on this host their
 * checkouts are. Loads nothing of S3 itself.
 */

import { TaskdError } from "../errors.ts";
import { sha256Hex } from "../sha256.ts";

/** Whether a location names a bucket; {@linkcode defaultWorkspace} shows it. */
export function isS3Location(location: string): boolean {
  return /^s3:\/\//i.test(location);
}

/**
 * The bucket and prefix of an `s3:` location, and how it is written.
 *
 * @throws {TaskdError} `usage`
 */
export function parseS3Location(location: string): { bucket: string; prefix: string; url: string } {
  const match = /^s3:\/\/([a-z0-9][a-z0-9.-]*)((?:\/[A-Za-z0-9_.~@-]+)*)\/?$/i.exec(location);
  if (!match) {
    // The part before an @ may be a secret.
    throw new TaskdError("usage", `Cannot open ${location.replace(/[^/]*@/, "...@")}: it is no bucket and prefix`, {
      hint: "Write s3://bucket/prefix; keys are of letters, digits and _ . ~ @ -",
    });
  }
  const [, bucket, path] = match;
  return { bucket: bucket!, prefix: path!.slice(1), url: `s3://${bucket}${path}` };
}

/**
 * The directory of a bucket store's checkouts, caches and locks on this host: `<home>/.taskd/workspaces/<hash>`. The hash
 * is of location and endpoint, so that all commands on one store share it.
 *
 * @example
 * ```ts
 * import { defaultWorkspace, isS3Location } from "@taskd/taskd";
 *
 * const location = "s3://bucket/prefix";
 * if (isS3Location(location)) console.log(defaultWorkspace(location, { home: "/home/ada" }));
 * ```
 *
 * @throws {TaskdError} `usage` for what is no bucket and prefix.
 */
export function defaultWorkspace(location: string, options: { home: string; endpoint?: string }): string {
  const { url } = parseS3Location(location);
  const hash = sha256Hex(`${options.endpoint ?? ""}\n${url}`);
  return `${options.home}/.taskd/workspaces/${hash.slice(0, 16)}`;
}
