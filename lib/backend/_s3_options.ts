/**
 * How a store in a bucket is reached, and what that means for the SDK's client.
 */

import type { S3ClientConfig } from "../packages/s3_sdk.ts";
import type { Clock, RandomBytes } from "../clock.ts";
import { BackendError } from "./backend.ts";
import { isKeyPart } from "./object_key.ts";
import type { S3Deadlines } from "./_s3_calls.ts";

const MAX_CONNECTIONS = 64;

/** Who asks, where the default chain of the SDK (environment, ~/.aws, instance) is not to decide. */
export interface S3Credentials {
  /** Access key id. */
  access_key_id: string;
  /** Secret access key. */
  secret_access_key: string;
  /** Session token of temporary credentials. */
  session_token?: string;
}

/** How an S3 server is reached. */
export interface S3StoreOptions {
  /** The server's URL; default AWS. */
  endpoint?: string;
  /** Default `us-east-1`, which servers other than AWS mostly accept. */
  region?: string;
  /** Whether the bucket is in the path and not in the host's name; default: yes with an endpoint. */
  path_style?: boolean;
  /** Credentials; by default those of the environment, ~/.aws or the instance. */
  credentials?: S3Credentials;
}

export interface S3BackendOptions extends S3StoreOptions {
  bucket: string;
  /** Beginning of the store's keys, `/`-separated; none for the whole bucket. */
  prefix?: string;
  /** Write nothing, also nothing that would show how the server writes: only reading works then. */
  read_only?: boolean;
  clock?: Clock;
  random?: RandomBytes;
  deadlines?: Partial<S3Deadlines>;
  /** Bytes of an uploaded part, at least 5 MiB; default 16 MiB. */
  part_bytes?: number;
  /** Copies above this size are made in parts; default 5 GiB. */
  single_copy_bytes?: number;
}

/** The bucket, the prefix with its slash, and the URL of a store. */
export function placeOf(options: S3BackendOptions): { bucket: string; prefix: string; url: string } {
  const { bucket } = options;
  const parts = (options.prefix ?? "").split("/").filter((part) => part !== "");
  const url = ["s3:/", bucket, ...parts].join("/");
  const refuse = (why: string) => new BackendError("denied", url, `Cannot open the store ${url}: ${why}`);
  if (!/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/.test(bucket)) throw refuse("that is no bucket's name");
  if (!parts.every(isKeyPart) || parts.join("/").length > 400) throw refuse("that prefix cannot be used");
  const endpoint = options.endpoint === undefined ? undefined : URL.parse(options.endpoint);
  if (endpoint === null || endpoint !== undefined && !/^https?:$/.test(endpoint.protocol)) {
    throw refuse("its endpoint is no http or https URL");
  }
  if (endpoint?.username || endpoint?.password) throw refuse("its endpoint must not hold credentials");
  return { bucket, prefix: parts.map((part) => `${part}/`).join(""), url };
}

export function configOf(options: S3BackendOptions): S3ClientConfig {
  const { endpoint, credentials } = options;
  return {
    region: options.region ?? "us-east-1",
    ...(endpoint === undefined ? {} : { endpoint }),
    forcePathStyle: options.path_style ?? endpoint !== undefined,
    ...(credentials === undefined ? {} : {
      credentials: {
        accessKeyId: credentials.access_key_id,
        secretAccessKey: credentials.secret_access_key,
        ...(credentials.session_token === undefined ? {} : { sessionToken: credentials.session_token }),
      },
    }),
    // Every attempt and every wait is ours: see _s3_calls.ts.
    maxAttempts: 1,
    requestHandler: { httpAgent: agent(), httpsAgent: agent(), socketTimeout: 0, requestTimeout: 0 },
    expectContinueHeader: false,
    // Checksums that trail the body are not understood everywhere.
    requestChecksumCalculation: "WHEN_REQUIRED",
    responseChecksumValidation: "WHEN_REQUIRED",
  };
}

function agent(): { keepAlive: boolean; maxSockets: number } {
  return { keepAlive: true, maxSockets: MAX_CONNECTIONS };
}
