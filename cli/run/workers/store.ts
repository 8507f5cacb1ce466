/**
 * The Worker in which commands run that ask for one store's operations.
 *
 * @module
 */

import { loadForStore } from "../modules/store.ts";
import { hostCommand } from "../worker_host.ts";

hostCommand(loadForStore);
