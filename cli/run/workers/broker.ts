/** The Worker of commands that ask the task broker. */

import { loadForBroker } from "../modules/broker.ts";
import { hostCommand } from "../worker_host.ts";

hostCommand(loadForBroker);
