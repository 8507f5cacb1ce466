/**
 * What the SDK needs of Deno, so that a launch line can allow exactly that. The SDK reads its settings one by one: a
 * name that is not allowed fails it, whether set or not.
 */

import type { S3StoreOptions } from "./_s3_options.ts";

/** Names of environment variables, as `--allow-env` takes them. */
export const S3_ENV: readonly string[] = ["AWS_*", "_X_AMZN_TRACE_ID", "HOME", "HOMEDRIVE", "HOMEPATH", "USERPROFILE"];

/** Facts about the system, as `--allow-sys` takes them: the client's name contains the kernel's version. */
export const S3_SYS: readonly string[] = ["osRelease"];

/** Files with credentials and settings, as `--allow-read` takes them; `AWS_PROFILE` and others may name more. */
export function s3Read(home: string): string[] {
  return [`${home}/.aws/config`, `${home}/.aws/credentials`];
}

/** Where a bucket is, as far as its host's name depends on it. */
export interface S3Reach extends Pick<S3StoreOptions, "endpoint" | "region" | "path_style"> {
  bucket: string;
}

export interface S3Access {
  /** `host:port` of the server, and of the metadata services that issue credentials where the environment holds none. */
  net: string[];
  env: string[];
  sys: string[];
  read: string[];
}

export interface S3Environment {
  home: string | undefined;
  env(name: string): string | undefined;
}

/** Domains of AWS by the beginning of a region's name; every other region is in `amazonaws.com`. */
const DOMAINS: readonly (readonly [string, string])[] = [
  ["cn-", "amazonaws.com.cn"],
  ["eusc-", "amazonaws.eu"],
  ["us-iso-", "c2s.ic.gov"],
  ["us-isob-", "sc2s.sgov.gov"],
  ["us-isof-", "csp.hci.ic.gov"],
  ["eu-isoe-", "cloud.adc-e.uk"],
];

/** Where containers and instances of AWS ask for their credentials. */
const CONTAINER_METADATA = "169.254.170.2:80";
const INSTANCE_METADATA = "169.254.169.254:80";

/** The one `host:port` that the SDK sends a bucket's requests to. */
export function s3Host({ bucket, endpoint, region = "us-east-1", path_style }: S3Reach): string {
  const url = new URL(endpoint ?? `https://s3.${region}.${domainOf(region)}`);
  // An address takes no subdomain, and no certificate covers a name with further dots.
  const cannot = /^[\d.]+$|^\[/.test(url.hostname) || bucket.includes(".");
  const in_path = path_style ?? endpoint !== undefined;
  return `${cannot || in_path ? "" : `${bucket}.`}${url.hostname}:${portOf(url)}`;
}

/** What opening a store in a bucket may access in addition to its workspace. */
export function s3Access(reach: S3Reach, { home, env }: S3Environment): S3Access {
  const files = [env("AWS_CONFIG_FILE"), env("AWS_SHARED_CREDENTIALS_FILE")].filter((file) => file !== undefined);
  const access = {
    net: [s3Host(reach)],
    env: [...S3_ENV],
    sys: [...S3_SYS],
    read: [...(home === undefined ? [] : s3Read(home)), ...files],
  };
  if (env("AWS_ACCESS_KEY_ID") !== undefined && env("AWS_PROFILE") === undefined) return access;
  const token_file = env("AWS_WEB_IDENTITY_TOKEN_FILE");
  const full_uri = env("AWS_CONTAINER_CREDENTIALS_FULL_URI");
  if (token_file !== undefined) {
    const region = env("AWS_REGION") ?? reach.region ?? "us-east-1";
    access.net.push(`sts.${region}.${domainOf(region)}:443`);
    access.read.push(token_file);
  }
  if (env("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI") !== undefined) access.net.push(CONTAINER_METADATA);
  else if (full_uri !== undefined && URL.canParse(full_uri)) {
    const url = new URL(full_uri);
    access.net.push(`${url.hostname}:${portOf(url)}`);
    access.read.push(...[env("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")].filter((file) => file !== undefined));
  } else if (env("AWS_EC2_METADATA_DISABLED") !== "true") access.net.push(INSTANCE_METADATA);
  return access;
}

function domainOf(region: string): string {
  return DOMAINS.find(([beginning]) => region.startsWith(beginning))?.[1] ?? "amazonaws.com";
}

function portOf({ port, protocol }: URL): string {
  return port || (protocol === "http:" ? "80" : "443");
}
