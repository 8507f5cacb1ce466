/**
 * Programs that try the walls of a container from inside of it; `taskd redteam` and the sandbox's own tests share them.
 */

import firewall from "./firewall.py" with { type: "text" };
import host from "./host.py" with { type: "text" };
import network from "./network.py" with { type: "text" };

export { default as ATTEMPTS_PRELUDE } from "./attempts.py" with { type: "text" };
export { default as FORK_BOMB } from "./fork_bomb.py" with { type: "text" };
export { default as SIBLING_SCRIPT } from "./sibling.py" with { type: "text" };
export { default as WALL_ATTACKS } from "./walls.py" with { type: "text" };

/** Places that a sandbox is to reach, and others that it must not. */
export interface NetworkPlaces {
  gateway: string;
  /** Where something else listens on the gateway's address. */
  other_port: number;
  /** The host by its own address, and a port where something listens on it. */
  host: string;
  host_port: number;
  sibling: string;
}

export function networkAttacks({ gateway, other_port, host, host_port, sibling }: NetworkPlaces): string {
  const places = [gateway, other_port, host_port, host, sibling];
  return `gw, other, everywhere, lan, sibling = ${JSON.stringify(places)}\n${network}`;
}

/** What of the host a program must not reach, and where it may write. */
export interface HostPlaces {
  key: string;
  socket: string;
  /** Name of an abstract socket, without its NUL. */
  abstract: string;
  /** A word in the command line of a process. */
  victim: string;
  port: number;
  writable: string;
  /** Whether more is tried than what is harmless outside of a sandbox. */
  inside: boolean;
}

export function hostAttacks(places: HostPlaces): string {
  return `places = json.loads(${JSON.stringify(JSON.stringify(places))})\n${host}`;
}

/** `tools`: the programs that are there, where there is no firewall of the image's. */
export function firewallAttacks(
  { gateway, other_port, tools }: Pick<NetworkPlaces, "gateway" | "other_port"> & { tools?: readonly string[] },
): string {
  const there = tools === undefined ? "None" : JSON.stringify(tools);
  return `gw, other, tools = ${JSON.stringify(gateway)}, ${other_port}, ${there}\n${firewall}`;
}
