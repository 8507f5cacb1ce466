/** A command's view of its parsed words. To ask for what the table does not declare is a defect, and throws. */

import type { Settings } from "../../broker/settings/settings.ts";
import type { HostPlace } from "./broker_host.ts";
import { TaskdError } from "../../lib/errors.ts";
import { type Address, formatAddress, parseAddress, parsePointName } from "../../lib/store/names.ts";
import { brokerOf, type BrokerPlace, type FlagValue, hostOf, type Plan } from "./plan.ts";

export class Args {
  readonly plan: Plan;

  constructor(plan: Plan) {
    this.plan = plan;
  }

  get broker(): BrokerPlace {
    return brokerOf(this.plan);
  }

  /** Those that could be loaded: a command whose `config` is `required` has them. */
  get settings(): Settings {
    const { settings } = this.broker;
    if (settings === undefined) throw new Error(`Command ${this.plan.command} has no settings`);
    return settings;
  }

  get host(): HostPlace {
    return hostOf(this.plan);
  }

  positional(name: string): string {
    const value = this.plan.positionals[name];
    if (value === undefined) throw new Error(`No argument <${name}>`);
    return value;
  }

  optional(name: string): string | undefined {
    return this.plan.positionals[name];
  }

  address(name: string): Address {
    return parseAddress(this.positional(name));
  }

  /** An address, at the point that `--at` names. */
  addressAt(name: string): Address {
    const address = this.address(name);
    const at = this.text("at");
    if (at === undefined) return address;
    if (address.checkpoint !== undefined) {
      const two = `${formatAddress(address)} and --at ${JSON.stringify(at.slice(0, 200))}`;
      throw new TaskdError("usage", `Cannot use ${two}: two points are named`, {
        hint: "Name the point in the address or with --at, not both",
      });
    }
    return { ...address, checkpoint: parsePointName(at) };
  }

  on(name: string): boolean {
    return this.#flag(name) === true;
  }

  text(name: string): string | undefined {
    const value = this.#flag(name);
    return typeof value === "string" ? value : undefined;
  }

  /** One of the flag's choices in the table, which parsing has held it to. */
  choice<T extends string>(name: string): T | undefined {
    return this.text(name) as T | undefined;
  }

  texts(name: string): string[] {
    const value = this.#flag(name);
    return Array.isArray(value) ? value : [];
  }

  /** A duration in milliseconds, a size in bytes or an integer. */
  number(name: string): number | undefined {
    const value = this.#flag(name);
    return typeof value === "number" ? value : undefined;
  }

  numberOf(name: string): number {
    const value = this.number(name);
    if (value === undefined) throw new Error(`Flag --${name} has no default`);
    return value;
  }

  #flag(name: string): FlagValue {
    const value = this.plan.flags[name];
    if (value === undefined) throw new Error(`Command ${this.plan.command} declares no flag --${name}`);
    return value;
  }
}
