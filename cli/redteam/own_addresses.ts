/** The promise about the addresses of this machine: none is public, whatever its networks look like. */

import type { SecurityPromise } from "./security_promise.ts";

export const NETWORK_PROMISES: readonly SecurityPromise[] = [
  {
    id: "egress.own_addresses",
    promise: "No name leads a sandbox to an address of this machine",
    attacks: "A name for each address of this host's interfaces, alone and behind a public one",
    async run(trial, { surfaces, clock }) {
      const { signal } = new AbortController();
      const reaches = async (...addresses: string[]) => {
        const dialer = surfaces.dialer({ clock, resolve: () => Promise.resolve(addresses) });
        return await dialer.addresses("self.example", signal).then(() => true, () => false);
      };
      for (const { address, name } of Deno.networkInterfaces()) {
        trial.attempt(`${address} of ${name}`, !await reaches(address), "it may be dialled");
        trial.attempt(`8.8.8.8 and ${address}`, !await reaches("8.8.8.8", address), "it may be dialled");
      }
      trial.control("a public address", await reaches("8.8.8.8"));
    },
  },
];
