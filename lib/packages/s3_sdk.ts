/**
 * The SDK of S3, pinned, and loaded with the first store that is in a bucket.
 *
 * The runtime fetches every package that a literal `import()` names before the first line of a program runs. This one
 * has some forty packages, so its name is computed; `deno task compile` includes it by name.
 */

export type {
  $Command,
  S3Client,
  S3ClientConfig,
  S3ClientResolvedConfig,
  ServiceInputTypes,
  ServiceOutputTypes,
} from "npm:@aws-sdk/client-s3@3.1169.0";

export type S3Sdk = typeof import("npm:@aws-sdk/client-s3@3.1169.0");

export const S3_SDK: string = "npm:@aws-sdk/client-s3@3.1169.0";

/** Loads the SDK; the first time it may have to be downloaded. */
export function loadS3Sdk(): Promise<S3Sdk> {
  return import(S3_SDK);
}
