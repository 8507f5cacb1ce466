/**
 * The command `taskd ui`.
 */

import type { BrokerClient } from "../../broker/client/client.ts";
import type { UiAddress } from "../../broker/api/wire.ts";
import type { Args } from "../plan/args.ts";
import type { Io } from "../text/io.ts";

export async function run(_args: Args, _io: Io, broker: BrokerClient): Promise<UiAddress> {
  return { url: await broker.uiUrl() };
}

export function render({ url }: UiAddress): string {
  return url;
}
