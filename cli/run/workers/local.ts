/** The Worker of commands that need neither a store's operations nor the broker's client. */

import { loadLocal } from "../modules/local.ts";
import { hostCommand } from "../worker_host.ts";

hostCommand(loadLocal);
