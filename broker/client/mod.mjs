/* @ts-self-types="./mod.d.mts" */
/**
 * A client of the task broker: submit tasks to coding agents, follow them, read what they did, approve or deny it.
 *
 * It speaks to a broker that runs (`taskd start`), over its unix socket (`taskd doctor` names it) or over TCP, and does
 * what the commands do. Every failure is a `TaskdError` with a code to act on.
 *
 * @example Ask a broker, or learn that none runs
 * ```ts
 * import { BrokerClient } from "@taskd/taskd/broker";
 * import { hasCode } from "@taskd/taskd";
 *
 * const broker = new BrokerClient({ socket: "/run/user/1000/taskd/taskd.sock" });
 * try {
 *   const { tasks } = await broker.tasks({ limit: 10 });
 *   for (const { id, stage } of tasks) console.log(id, stage);
 * } catch (error) {
 *   if (!hasCode(error, "broker_unreachable")) throw error;
 *   console.log("no broker runs: taskd start");
 * }
 * ```
 *
 * @module
 */

export { BrokerClient } from "./client.ts";
