/**
 * Several clients of one server behind a proxy that disturbs requests at random, from a seed:
 * with any answers lost, no update is lost, nothing is made twice, and every error is
 * one of the closed set.
 */

import { assert, assertEquals } from "@std/assert";
import { BackendError, type BackendErrorCode } from "../../lib/backend/backend.ts";
import { S3Backend } from "../../lib/backend/s3.ts";
import { FaultProxy, type ProxyFault } from "../support/fault_proxy.ts";
import { backendOptions, emptyS3, type S3Place } from "../support/s3_server.ts";
import { SeededRandom } from "../support/writers/random.ts";

const CLIENTS = 4;
const ROUNDS = 12;
/** Share of the requests that are harmed. */
const RATE = 0.15;
/**
 * Where a refusal may be a lie (412 or 409 after success, as of a proxy that repeated the request), and a rival has
 * overtaken the write before it was read, its success cannot be known: an honest server's refusal is strict.
 */
const RUNS = [{ seed: 1, lies: false }, { seed: 2, lies: false }, { seed: 3, lies: true }, { seed: 4, lies: true }];

const encode = (value: unknown): Uint8Array => new TextEncoder().encode(JSON.stringify(value));
const decode = (bytes: Uint8Array): string[] => JSON.parse(new TextDecoder().decode(bytes));

function fault(random: SeededRandom, lies: boolean): ProxyFault | undefined {
  if (!random.chance(RATE)) return undefined;
  const lying: ProxyFault[] = [
    { kind: "answer", status: 409, code: "ConditionalRequestConflict", after: true },
    { kind: "answer", status: 412, code: "PreconditionFailed", after: true },
  ];
  return random.pick<ProxyFault>([
    { kind: "cut" },
    { kind: "cut_answer" },
    { kind: "hang", after: random.chance(0.5) },
    { kind: "delay", ms: random.between(1, 100) },
    { kind: "truncate", body_bytes: random.between(0, 20) },
    { kind: "answer", status: 500, code: "InternalError", after: random.chance(0.5) },
    { kind: "answer", status: 503, code: "SlowDown" },
    { kind: "answer", status: 409, code: "ConditionalRequestConflict" },
    ...(lies ? lying : []),
  ]);
}

type Outcome = "done" | BackendErrorCode;

async function outcomeOf(call: Promise<unknown>): Promise<Outcome> {
  try {
    await call;
    return "done";
  } catch (error) {
    assert(error instanceof BackendError, `not of the closed set: ${error}`);
    return error.code;
  }
}

/** Registers the promises for the server that `place` names. */
export function seededFaultsOnS3(name: string, place: () => S3Place & { endpoint: string }): void {
  for (const { seed, lies } of RUNS) {
    Deno.test(`${name}: faults of seed ${seed}${lies ? ", lies among them," : ""} lose no update and make nothing twice`, async () => {
      await using inner = await emptyS3(place());
      await using proxy = new FaultProxy(place().endpoint);
      const options = backendOptions({ ...place(), endpoint: proxy.endpoint }, inner.prefix);
      const backend = await S3Backend.open({ ...options, deadlines: { begin_ms: 1000, idle_ms: 1000 } });
      const random = new SeededRandom(seed);
      proxy.plan = ({ method }) => {
        const injected = fault(random, lies);
        // Only an answer to a conditional write can contradict itself.
        return injected?.kind === "answer" && [409, 412].includes(injected.status) && method !== "PUT"
          ? undefined
          : injected;
      };
      await inner.backend.create("list", encode([]));
      const updates = new Map<string, Outcome>();
      const creates = new Map<string, Outcome>();
      await Promise.all(Array.from({ length: CLIENTS }, async (_, client) => {
        for (let round = 0; round < ROUNDS; round++) {
          const id = `${client}.${round}`;
          updates.set(id, await outcomeOf(append(backend, id)));
          creates.set(id, await outcomeOf(backend.create(`made/${round}`, encode(id))));
        }
      }));
      proxy.plan = () => undefined;
      backend.close();
      checkUpdates(decode((await inner.backend.get("list")).bytes), updates, lies);
      await checkCreates(inner.backend, creates);
    });
  }
}

async function append(backend: S3Backend, id: string): Promise<void> {
  const { bytes, etag } = await backend.get("list");
  await backend.replace("list", encode([...decode(bytes), id]), etag);
}

function checkUpdates(list: string[], updates: Map<string, Outcome>, lies: boolean): void {
  assertEquals(new Set(list).size, list.length, "an update was made twice");
  for (const [id, outcome] of updates) {
    if (outcome === "done") assert(list.includes(id), `the update ${id} was lost`);
    if (outcome === "precondition_failed" && !lies) {
      assert(!list.includes(id), `the update ${id} was refused, and made`);
    }
  }
  assert([...updates.values()].filter((outcome) => outcome === "done").length > 0, "nothing succeeded");
}

async function checkCreates(backend: S3Backend, creates: Map<string, Outcome>): Promise<void> {
  for (let round = 0; round < ROUNDS; round++) {
    const ids = Array.from({ length: CLIENTS }, (_, client) => `${client}.${round}`);
    const made = ids.filter((id) => creates.get(id) === "done");
    assert(made.length <= 1, `${made.join(" and ")} both made one object`);
    const stands = await outcomeOf(backend.get(`made/${round}`)) === "done"
      ? String(JSON.parse(new TextDecoder().decode((await backend.get(`made/${round}`)).bytes)))
      : undefined;
    if (made.length === 1) assertEquals(stands, made[0]);
    if (stands !== undefined) assert(creates.get(stands) !== "precondition_failed", `${stands} was refused, and made`);
  }
}
