/**
 * What the SDK asks of Deno besides the network, so that a launch line can allow exactly
 * that. It reads its settings one by one: a name that is not allowed ends it, whether set or not.
 *
 * @module
 */

/** Names of environment variables, as `--allow-env` takes them. */
export const S3_ENV: readonly string[] = [
  "AWS_*",
  "_X_AMZN_TRACE_ID",
  "HOME",
  "HOMEDRIVE",
  "HOMEPATH",
  "USERPROFILE",
];

/** Facts about the system, as `--allow-sys` takes them: the client's name tells the kernel's version. */
export const S3_SYS: readonly string[] = ["osRelease"];

/** Files with credentials and settings, as `--allow-read` takes them; `AWS_PROFILE` and others may name more. */
export function s3Read(home: string): string[] {
  return [`${home}/.aws/config`, `${home}/.aws/credentials`];
}
