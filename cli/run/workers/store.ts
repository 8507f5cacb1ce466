/** The Worker of commands that use one store's operations. */

import { loadForStore } from "../modules/store.ts";
import { hostCommand } from "../worker_host.ts";

hostCommand(loadForStore);
