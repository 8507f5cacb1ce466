/**
 * The cases, in the order they run and are shown.
 *
 * @module
 */

import type { BenchCase } from "../bench.ts";
import { copies } from "./copies.ts";

/** Every case. */
export const CASES: readonly BenchCase[] = [copies];
