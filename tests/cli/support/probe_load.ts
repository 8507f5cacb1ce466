/**
 * Answers with the probe, whatever command is asked for.
 */

import type { Load } from "../../../cli/run/run.ts";

/** Loads the probe. */
export const probeLoad: Load = async () => ({ backend: "none", module: await import("./probe.ts") });
