/**
 * The Worker in which commands run.
 *
 * @module
 */

import { loadFromTable } from "./run.ts";
import { hostCommand } from "./worker_host.ts";

hostCommand(loadFromTable);
