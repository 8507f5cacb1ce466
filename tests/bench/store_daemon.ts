/** The branch store's daemon as a process of its own, for cases that measure it. */

import { DaemonProcess } from "../../cli/demo/own_process.ts";
import { type Client, connect } from "../../lib/client/client.ts";
import { TASKD_ENTRY } from "./process.ts";

/** Starts it in the directory `store`; `flags` follow its words. */
export async function startStore(
  { store, socket, flags = [] }: { store: string; socket: string; flags?: string[] },
): Promise<DaemonProcess<Client>> {
  const words = ["serve", "--store", store, "--socket", socket, ...flags];
  const { signal } = new AbortController();
  return await DaemonProcess.start(words, { entry: TASKD_ENTRY, signal }, () => connect(socket, { signal }));
}
