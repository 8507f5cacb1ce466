/**
 * The Worker in which commands run that ask nobody.
 *
 * @module
 */

import { loadLocal } from "../modules/local.ts";
import { hostCommand } from "../worker_host.ts";

hostCommand(loadLocal);
