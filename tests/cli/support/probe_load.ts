/**
 * Answers with the probe, whatever command is asked for.
 *
 * @module
 */

import type { Load } from "../../../cli/run/run.ts";

/** Loads the probe. */
export const probeLoad: Load = async () => ({ asks: "nobody", module: await import("./probe.ts") });
