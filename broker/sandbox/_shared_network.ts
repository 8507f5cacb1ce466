/**
 * What the sandboxes of a broker share: a network without outside access, and the anchor, a container that is attached
 * to it and sleeps. The host has the gateway's address only while a container is attached.
 */

import type { ContainerKind } from "./runtime.ts";
import * as v from "valibot";
import type { Clock } from "../../lib/clock.ts";
import { TaskdError } from "../../lib/errors.ts";
import { complaint, type ContainerProgram, printed, refused, refusedImage } from "./container_program.ts";
import type { ProgramOutput } from "./host_programs.ts";
import { remove } from "./_container_sandbox.ts";
import {
  anchorArgs,
  type ContainerHost,
  type Limits,
  networkArgs,
  OWNER_LABEL,
  ROLE_LABEL,
  subnetOf,
} from "./container_arguments.ts";

/** OCI runtimes that are tried where the program's own does not work on this host. */
const OTHER_OCI_RUNTIMES = ["crun", "runc"];

/** Limits that every host has room for. */
const LOW_LIMITS: Limits = { open_files: 1_024, processes: 1_000 };

/** As podman and as docker writes it. */
const NetworksSchema = v.looseTuple([
  v.looseObject({ internal: v.optional(v.boolean()), Internal: v.optional(v.boolean()) }),
]);

export interface Working {
  oci_runtime: string;
  limits?: Limits;
}

export interface SharedNetworkOptions {
  kind: ContainerKind;
  network: string;
  gateway_ip: string;
  anchor_image: string;
  owner: string;
  clock: Clock;
}

export class SharedNetwork {
  /** What was found to work; undefined before {@linkcode prepare}. */
  works: Working | undefined;
  readonly #program: ContainerProgram;
  readonly #options: SharedNetworkOptions;

  constructor(program: ContainerProgram, options: SharedNetworkOptions) {
    this.#program = program;
    this.#options = options;
  }

  get #anchor(): string {
    return `taskd-anchor-${this.#options.owner.slice(0, 12)}`;
  }

  /** Makes sure of both; an anchor that is there already is replaced. */
  async prepare(host: ContainerHost): Promise<void> {
    await this.#makeNetwork(host);
    await remove(this.#program, this.#anchor, this.#options.clock);
    await this.#startAnchor(host);
  }

  async close(): Promise<void> {
    await remove(this.#program, this.#anchor, this.#options.clock);
  }

  async #makeNetwork(host: ContainerHost): Promise<void> {
    const { network, owner } = this.#options;
    const attempted = `Cannot make the network ${network}`;
    const { code, stdout } = await this.#program.ask(["network", "inspect", network]);
    if (code === 0) return this.#checkNetwork(stdout);
    const labels = { [OWNER_LABEL]: owner, [ROLE_LABEL]: "network" };
    const made = await this.#program.ask(networkArgs(host, { name: network, labels }), { attempted });
    if (made.code === 0) return;
    throw refused(attempted, made, "If its addresses are taken, set gateway_ip to one of a free range");
  }

  /** Whatever made it: it must have no outside access, and the gateway where the listeners will be. */
  #checkNetwork(inspected: string): void {
    const { network, gateway_ip, kind } = this.#options;
    if (kind === "container") return;
    const [found] = printed(NetworksSchema, inspected, `Cannot use the network ${network}`);
    const isInternal = (found.internal ?? found.Internal) === true;
    const text = JSON.stringify(found);
    if (isInternal && text.includes(`"${gateway_ip}"`) && text.includes(`"${subnetOf(gateway_ip)}"`)) return;
    const wrong = isInternal ? `its gateway is not ${gateway_ip}` : "it reaches other networks";
    throw new TaskdError("sandbox_failed", `Cannot use the network ${network}: ${wrong}`, {
      hint: `Remove it with: ${this.#program.path} network rm ${network}; or set network to another name`,
    });
  }

  async #startAnchor(host: ContainerHost): Promise<void> {
    const { network, owner, anchor_image } = this.#options;
    const attempted = "Cannot start the anchor of the sandboxes' network";
    const labels = { [OWNER_LABEL]: owner, [ROLE_LABEL]: "anchor" };
    let first: ProgramOutput | undefined;
    for (const works of candidates(host)) {
      const anchor = { name: this.#anchor, labels, image: anchor_image, network };
      const answer = await this.#program.ask(anchorArgs({ ...host, ...works }, anchor), { attempted });
      if (answer.code === 0) {
        this.works = works;
        return;
      }
      first ??= answer;
      await remove(this.#program, this.#anchor, this.#options.clock);
      if (!/oci|runtime|rlimit/i.test(complaint(answer))) break;
    }
    throw refusedImage(attempted, first!, anchor_image);
  }
}

/** What is tried, one after the other: an OCI runtime may not work with this kernel, limits may be more than one may set. */
function candidates({ kind, oci_runtime, limits }: ContainerHost): Working[] {
  if (kind === "container") return [{ oci_runtime: "" }];
  const runtimes = oci_runtime === "" ? ["", ...OTHER_OCI_RUNTIMES] : [oci_runtime];
  const bounds = limits === undefined ? [undefined, LOW_LIMITS] : [limits, LOW_LIMITS];
  return runtimes.flatMap((oci_runtime) =>
    bounds.map((limits) => limits === undefined ? { oci_runtime } : { oci_runtime, limits })
  );
}
