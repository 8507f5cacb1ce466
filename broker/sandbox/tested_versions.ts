/**
 * The versions of container runtimes that the sandbox was tested with, which
 * `strict_container_version` holds the broker to.
 */

import type { SandboxRuntimeName } from "./runtime.ts";

/** First and last tested major version; what is not listed was not tested at all. The embedded one is part of the program. */
const TESTED_MAJORS: Readonly<Partial<Record<SandboxRuntimeName, readonly [number, number]>>> = {
  podman: [4, 4],
  bubblewrap: [0, 0],
};

/** Why a version is outside of what was tested; undefined when it is inside. */
export function untestedVersion(name: SandboxRuntimeName, version: string): string | undefined {
  if (name === "deno") return undefined;
  const tested = TESTED_MAJORS[name];
  if (tested === undefined) return `no version of ${name} was tested`;
  const [first, last] = tested;
  const major = /^(\d+)\./.exec(version)?.[1];
  const range = first === last ? `${first}.x` : `${first}.x to ${last}.x`;
  if (major === undefined) return `the version of ${name} cannot be read, and ${range} was tested`;
  if (Number(major) >= first && Number(major) <= last) return undefined;
  return `${name} ${version} is not one of the tested versions, ${range}`;
}
