/**
 * A Worker of `cli/workers` with the probe in place of every command.
 *
 * @module
 */

import { hostCommand } from "../../../cli/worker_host.ts";
import { probeLoad } from "./probe_load.ts";

hostCommand(probeLoad);
