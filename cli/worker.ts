/**
 * The Worker in which commands run.
 *
 * @module
 */

import { loadInWorker } from "./command_modules.ts";
import { hostCommand } from "./worker_host.ts";

hostCommand(loadInWorker);
