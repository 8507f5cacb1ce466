/**
 * Property tests: what they draw follows the seed of the run. For tests beside their sources as well, because the packages
 * of tests are known below tests/ alone.
 */

import fc from "fast-check";
import { testSeed } from "../support/seed.ts";

fc.configureGlobal({ ...fc.readConfigureGlobal(), seed: testSeed() });

export { default } from "fast-check";
export * from "fast-check";
