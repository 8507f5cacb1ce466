/**
 * A Worker of `cli/run/workers` with the probe in place of every command.
 */

import { hostCommand } from "../../../cli/run/worker_host.ts";
import { probeLoad } from "./probe_load.ts";

hostCommand(probeLoad);
