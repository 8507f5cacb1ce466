/* @ts-self-types="./mod.d.mts" */

export { BrokerClient } from "./client.ts";
