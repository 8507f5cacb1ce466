/**
 * The command `taskd service print`.
 *
 * @module
 */

import type { Args } from "../plan/args.ts";
import { type ServiceFile, serviceFile } from "./_service.ts";

/** Makes the file's text and writes nothing. */
export function run(args: Args): Promise<ServiceFile> {
  return Promise.resolve(serviceFile(args));
}

/** The text as it would be in the file. */
export function render({ text }: ServiceFile): string {
  return text.trimEnd();
}
