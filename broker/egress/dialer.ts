/**
 * From a checked name to a connection: one lookup, every address checked, and the checked address itself dialled. There
 * is no second lookup, which could answer differently.
 */

import { lookup } from "node:dns/promises";
import type { Clock } from "../../lib/clock.ts";
import type { Stream } from "./_buffered_connection.ts";
import { canonicalAddress, classifyAddress, parsePrefix, type Prefix } from "./address_class.ts";
import { Refused } from "./reasons.ts";

/** Finds the addresses of a canonical name; rejects when there are none. */
export type Resolve = (host: string) => Promise<string[]>;
export type Connect = (address: string, port: number, signal: AbortSignal) => Promise<Stream>;

/** Addresses of one name that are tried; a name with more is no less reachable for it. */
const MAX_TRIED = 4;
const OWN_ADDRESSES_MS = 5_000;

export interface DialerOptions {
  clock: Clock;
  resolve?: Resolve;
  connect?: Connect;
  /** The host's own addresses, as `address/bits` of their networks; those of its interfaces by default. */
  own_addresses?: () => string[];
  /** Addresses that may be dialled although they are not public: mirrors in a closed network, and tests. */
  allow_addresses?: readonly string[];
}

/** Looks a name up as the host does. The dot at its end keeps the host's search domains out of it. */
async function systemResolve(host: string): Promise<string[]> {
  const found = await lookup(`${host}.`, { all: true, verbatim: true });
  return found.map(({ address }) => address);
}

async function systemConnect(address: string, port: number, signal: AbortSignal): Promise<Stream> {
  const connection = await Deno.connect({ hostname: address, port, transport: "tcp", signal, autoSelectFamily: false });
  connection.setNoDelay(true);
  return connection;
}

export class Dialer {
  readonly #options: DialerOptions;
  readonly #allowed: ReadonlySet<string>;
  #own: readonly Prefix[] = [];
  #own_until_ms = -Infinity;

  constructor(options: DialerOptions) {
    this.#options = options;
    this.#allowed = new Set((options.allow_addresses ?? []).flatMap((text) => canonicalAddress(text) ?? []));
  }

  /**
   * The addresses of a name, all of them fit to be dialled.
   *
   * @throws {Refused} `name_not_found`; `address_refused` as soon as one is not public: a name that mixes both is a
   * rebinding attack or a broken zone. An abort throws the signal's reason.
   */
  async addresses(host: string, signal: AbortSignal): Promise<string[]> {
    const { resolve = systemResolve } = this.#options;
    const found = await aborted(signal, resolve(host).catch(() => []));
    if (found.length === 0) throw new Refused("name_not_found");
    for (const address of found) {
      const is = classifyAddress(address, this.#ownPrefixes());
      if (is !== "public" && !this.#allowed.has(canonicalAddress(address) ?? "")) {
        throw new Refused("address_refused", is);
      }
    }
    return found;
  }

  /**
   * Connects to the first of `addresses` that takes it.
   *
   * @param signal Ends the waiting for one address; the next one is tried with a new signal.
   * @throws {Refused} `connect_failed` or `connect_timeout`, whichever the last address did.
   */
  async dial(
    addresses: string[],
    port: number,
    signal: () => AbortSignal,
  ): Promise<{ stream: Stream; address: string }> {
    const { connect = systemConnect } = this.#options;
    let failed: Refused = new Refused("connect_failed");
    for (const address of addresses.slice(0, MAX_TRIED)) {
      const waiting = signal();
      try {
        return { stream: await connect(address, port, waiting), address };
      } catch (error) {
        failed = waiting.aborted ? new Refused("connect_timeout") : new Refused("connect_failed", systemReason(error));
      }
    }
    throw failed;
  }

  #ownPrefixes(): readonly Prefix[] {
    const { clock, own_addresses = () => Deno.networkInterfaces().map(({ cidr }) => cidr) } = this.#options;
    const now_ms = clock.monotonic();
    if (now_ms >= this.#own_until_ms) {
      this.#own = own_addresses().flatMap((text) => parsePrefix(text) ?? []);
      this.#own_until_ms = now_ms + OWN_ADDRESSES_MS;
    }
    return this.#own;
  }
}

function systemReason(error: unknown): string | undefined {
  if (error instanceof Deno.errors.ConnectionRefused) return "refused";
  if (error instanceof Deno.errors.ConnectionReset) return "reset";
  if (error instanceof Deno.errors.TimedOut) return "timed out";
  return undefined;
}

/** What `promise` gives, unless `signal` is first. */
function aborted<T>(signal: AbortSignal, promise: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(signal.reason);
    const onAbort = () => reject(signal.reason);
    signal.addEventListener("abort", onAbort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", onAbort));
  });
}
