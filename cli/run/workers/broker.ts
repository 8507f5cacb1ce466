/**
 * The Worker in which commands run that ask the task broker.
 *
 * @module
 */

import { loadForBroker } from "../modules/broker.ts";
import { hostCommand } from "../worker_host.ts";

hostCommand(loadForBroker);
