/**
 * Parts that the tests of admission share: settings, a broker's audit directory, starts
 * and their ends.
 */

import { Admission, type AdmissionOptions, type AdmissionSettings } from "../../../broker/admission/admission.ts";
import type { StartClaim, StartRequest } from "../../../broker/admission/admission.ts";
import { ledgerPath } from "../../../broker/admission/ledger_file.ts";
import type { Settlement } from "../../../broker/gateway/lease.ts";
import { newTaskId } from "../../../broker/task/ids.ts";
import type { SpendFigures } from "../../../broker/task/schema.ts";
import { TaskdError } from "../../../lib/errors.ts";
import { VirtualClock } from "../../support/clock.ts";
import { SeededRandom } from "../../support/writers/random.ts";

export const HOUR_MS = 3_600_000;
export const DAY_MS = 86_400_000;

/** As they are without configuration: no ceiling is on. */
export const DEFAULTS: AdmissionSettings = {
  max_concurrent_tasks: 2,
  aggregate_budget_usd: 0,
  aggregate_window: DAY_MS,
  global_budget_usd: 0,
  global_max_tasks: 0,
  global_window: DAY_MS,
  vendor_a_auth: "api_key",
  vendor_b_auth: "api_key",
};

export const START: StartRequest = { lane: "vendor_a", auth: "api_key", agent: "agent_a" };

const random = new SeededRandom(7);

/** An id as the broker mints them. */
export function someId(): string {
  return newTaskId(random.bytes);
}

/** A settled request. */
export function settlement(task_id: string, usd: number, more: Partial<Settlement> = {}): Settlement {
  return {
    task_id,
    lane: "vendor_a",
    auth: "api_key",
    route: "messages",
    model: "m",
    status: 200,
    ending: "complete",
    usd,
    unmetered: false,
    held_usd: 0,
    metered: undefined,
    duration_ms: 1,
    ...more,
  };
}

export function figures(usd: number, priced = true): SpendFigures {
  return { usd, requests: 1, unmetered_requests: priced ? 0 : 1, input_tokens: 1, output_tokens: 1, priced };
}

/** The code and text of the refusal that a claim meets; undefined when it is admitted, and given back at once. */
export function refusal(admission: Admission, request: StartRequest = START): TaskdError | undefined {
  try {
    admission.claim(request).abandon();
    return undefined;
  } catch (error) {
    if (error instanceof TaskdError) return error;
    throw error;
  }
}

/** An audit directory, and brokers on it one after the other. */
export class Site implements AsyncDisposable {
  readonly audit_root: string;
  readonly clock: VirtualClock;
  readonly log: string[] = [];
  settings: AdmissionSettings;
  admission!: Admission;
  #remove: string | undefined;

  constructor(audit_root: string, settings: Partial<AdmissionSettings>, remove?: string) {
    this.audit_root = audit_root;
    this.clock = new VirtualClock();
    this.settings = { ...DEFAULTS, ...settings };
    this.#remove = remove;
  }

  static async make(settings: Partial<AdmissionSettings>): Promise<Site> {
    const place = await Deno.makeTempDir();
    const site = new Site(`${place}/audit`, settings, place);
    Deno.mkdirSync(site.audit_root, { mode: 0o700 });
    await site.start();
    return site;
  }

  get ledger(): string {
    return ledgerPath(this.audit_root);
  }

  async start(more: Partial<AdmissionOptions> = {}): Promise<Admission> {
    const { audit_root, settings, clock } = this;
    this.admission = await Admission.open({
      audit_root,
      settings,
      clock,
      log: (line) => this.log.push(line),
      ...more,
    });
    return this.admission;
  }

  /** A broker that stops, after `meanwhile`, and another one. */
  async restart(meanwhile: () => void = () => {}): Promise<Admission> {
    await this.admission.close();
    meanwhile();
    return await this.start();
  }

  begin(request: StartRequest = START): { id: string; claim: StartClaim } {
    const claim = this.admission.claim(request);
    const id = someId();
    claim.begin(id, new Date(this.clock.now()).toISOString());
    return { id, claim };
  }

  /** A task from its start to its end. */
  async run(usd: number, request: StartRequest = START): Promise<string> {
    const { id, claim } = this.begin(request);
    this.admission.settled(settlement(id, usd, { lane: request.lane, auth: request.auth }));
    await claim.end({ outcome: "pushed", ended_at: new Date(this.clock.now()).toISOString(), spend: figures(usd) });
    return id;
  }

  /** A trace as a file and nothing more. */
  plantTrace(id: string, changed_ms: number, content = "not even JSON"): void {
    const path = `${this.audit_root}/${id}.jsonl`;
    Deno.writeTextFileSync(path, content);
    Deno.utimeSync(path, changed_ms / 1_000, changed_ms / 1_000);
  }

  lines(): Record<string, unknown>[] {
    return Deno.readTextFileSync(this.ledger).trimEnd().split("\n").map((line) => JSON.parse(line));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.admission.close();
    if (this.#remove !== undefined) Deno.removeSync(this.#remove, { recursive: true });
  }
}
