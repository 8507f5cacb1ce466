/** Promises of container sandboxes, tried from inside of one of the installed image. */

import { TaskdError } from "../../lib/errors.ts";
import { GATEWAY_PORT, PROXY_PORT } from "../../broker/egress/ports.ts";
import { attempts, BOMB_PIDS, Greeter, holdRights, lanAddress, refused, tryForkBomb, tryNetwork } from "./_attempts.ts";
import type { SandboxNetwork } from "./sandbox_network.ts";
import type { RedteamContext } from "./context.ts";
import { firewallAttacks, WALL_ATTACKS } from "./inputs/container_scripts.ts";
import type { SecurityPromise, Trial } from "./security_promise.ts";

/** Files by which a container knows names; its program mounts each. */
const NAME_FILES = ["/etc/hostname", "/etc/hosts", "/etc/resolv.conf"];

/** The network; skips the trial where there can be none. */
async function networkFor(trial: Trial, context: RedteamContext): Promise<SandboxNetwork> {
  const { containers } = context.options;
  if (typeof containers !== "function") return trial.skip(containers.why);
  try {
    return await context.once("network", async () => {
      const opened = await containers();
      context.defer(() => opened.close());
      return opened;
    });
  } catch (error) {
    if (error instanceof TaskdError && /there is no image/.test(error.message)) {
      return trial.skip(`${error.message}; ${error.hint ?? ""}`);
    }
    throw error;
  }
}

export const CONTAINER_PROMISES: readonly SecurityPromise[] = [
  {
    id: "container.network",
    promise:
      "A sandbox reaches the gateway's and the proxy's port and nothing else: no internet, no host, no neighbour",
    attacks:
      "Other ports of the gateway's address, the host by its own, a neighbour, the internet, metadata services, " +
      "DNS in every form, raw and packet sockets, vsock",
    async run(trial, context) {
      const network = await networkFor(trial, context);
      const { gateway_ip: gateway } = network;
      await using _gateway = Greeter.at(gateway, GATEWAY_PORT, "the gateway");
      await using _proxy = Greeter.at(gateway, PROXY_PORT, "the proxy");
      await using other = Greeter.at(gateway, 0, "another port");
      await using own = Greeter.at(lanAddress(gateway), 0, "the host");
      await tryNetwork(trial, context, network, [other, own], (sibling) => sibling.address());
    },
  },
  {
    id: "container.firewall",
    promise: "Nothing in a sandbox can change its firewall, and nothing in it has a capability",
    attacks: "nft, namespaces of its own, the entrypoint again, set-uid, capabilities taken back, forwarding",
    async run(trial, context) {
      const network = await networkFor(trial, context);
      await using other = Greeter.at(network.gateway_ip, 0, "another port");
      const script = firewallAttacks({ gateway: network.gateway_ip, other_port: other.port });
      const got = await attempts(context, network, { script });
      holdRights(trial, got, 18);
      trial.attempt("connections at another port", other.accepted === 0, "there were some");
    },
  },
  {
    id: "container.walls",
    promise: "A sandbox writes its work tree, its home and /tmp and nothing else, and gains no rights",
    attacks:
      "Writing to the root, /etc, /dev, /proc and /sys, mounts, devices, chroot, set-uid programs, modules, bpf, " +
      "the clock",
    async run(trial, context) {
      const got = await walls(trial, context);
      refused(trial, got);
      const uid = got.get("uid of a program with the set-user-id bit");
      trial.attempt("a program with the set-user-id bit", uid !== "0", "uid 0");
      trial.expect("set-id programs of the image", got.get("set-id programs") ?? "-", "none");
      for (const name of ["writes its work tree", "writes its home", "writes /tmp"]) {
        trial.control(name, got.get(name) === "1", got.get(name));
      }
    },
  },
  {
    id: "container.sight",
    promise: "A sandbox sees nothing of its host: no socket, no process, no variable, no name, no folder but its own",
    attacks: "Sockets, /proc, the environment, hosts and resolvers, mounts of the host's disks, its name",
    async run(trial, context) {
      const got = await walls(trial, context);
      const words = (name: string) => (got.get(name) ?? "-").split(/\s+/).filter((word) => word !== "");
      const only = (name: string, allowed: readonly string[]) => {
        trial.none(name, words(name).filter((word) => !allowed.includes(word)));
      };
      trial.expect("sockets", got.get("sockets") ?? "-", "none");
      trial.attempt("processes of root", !words("uids of processes").includes("0"), "there are some");
      only("environment", ["HOME", "HOSTNAME", "PATH", "PWD", "TERM", "container", "SHLVL", "LC_CTYPE", "OLDPWD"]);
      only("names", ["127.0.0.1", "::1", "localhost", "nameserver"]);
      trial.expect("host name", got.get("host name") ?? "-", "sandbox");
      only("folders of the host", ["/workspace", "/home/agent", "/run/.containerenv", ...NAME_FILES]);
      trial.control("its work tree", got.get("writes its work tree") === "1", got.get("writes its work tree"));
    },
  },
  {
    id: "container.setup_commands",
    promise: "A setup command reaches the proxy and not the gateway: it has no business with a model",
    attacks: "The gateway's port from a sandbox of a setup phase",
    async run(trial, context) {
      const network = await networkFor(trial, context);
      await using gateway = Greeter.at(network.gateway_ip, GATEWAY_PORT, "the gateway");
      await using _proxy = Greeter.at(network.gateway_ip, PROXY_PORT, "the proxy");
      const reach = (name: string, port: number) =>
        `attempt("${name}", lambda: connect("${network.gateway_ip}", ${port}))\n`;
      const script = reach("gateway", GATEWAY_PORT) + reach("proxy", PROXY_PORT);
      const got = await attempts(context, network, { script, reach: "proxy" });
      trial.expect("the gateway", got.get("gateway") ?? "-", /^refused /);
      trial.attempt("connections at the gateway", gateway.accepted === 0, "there were some");
      trial.control("the proxy", got.get("proxy") === "the proxy", got.get("proxy"));
    },
  },
  {
    id: "container.processes",
    promise: "A fork bomb meets its bound, and the sandbox still ends when it is stopped",
    attacks: `As many processes as it can make, with a bound of ${BOMB_PIDS}`,
    async run(trial, context) {
      await tryForkBomb(trial, context, await networkFor(trial, context));
    },
  },
];

/** Attempts at the walls, made once for the promises that are about them. */
async function walls(trial: Trial, context: RedteamContext): Promise<Map<string, string>> {
  const network = await networkFor(trial, context);
  return await context.once("walls", async () => {
    const home = { source: await context.folder(), target: "/home/agent", writable: true };
    return await attempts(context, network, { script: WALL_ATTACKS, mounts: [home], env: { HOME: "/home/agent" } });
  });
}
