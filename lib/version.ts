/**
 * Which build is running.
 */

import config from "../deno.json" with { type: "json" };

/** Whether these modules are a release: packed into a program of their own, or served by the registry. */
const is_release = Deno.build.standalone || /^https?:\/\/[^/]+\/@taskd\/taskd\//.test(import.meta.url);

/** The version of a release, `dev` for everything else. */
export const VERSION: string = is_release ? config.version : "dev";
