/**
 * Answers with the probe, whatever command is asked for.
 *
 * @module
 */

import type { Load } from "../../../cli/run.ts";

/** Loads the probe. */
export const probeLoad: Load = async () => ({ local: true, module: await import("./probe.ts") });
