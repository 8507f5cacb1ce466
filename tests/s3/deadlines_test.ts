import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { BackendError } from "../../lib/backend/backend.ts";
import { S3Backend, type S3BackendOptions } from "../../lib/backend/s3.ts";
import { FaultProxy, type ProxiedRequest, type ProxyFault } from "../support/fault_proxy.ts";
import { startVersitygw } from "../support/second_s3.ts";
import { backendOptions, emptyS3, type S3Server } from "../support/s3_server.ts";
import { VirtualClock } from "../support/clock.ts";

const MIB = 1024 * 1024;
const MINUTE_MS = 60_000;

let server: S3Server;
Deno.test.beforeAll(async () => {
  server = await startVersitygw();
});
Deno.test.afterAll(async () => await server[Symbol.asyncDispose]());

/** A backend whose requests pass a proxy and whose time stands still. */
interface Staged extends AsyncDisposable {
  backend: S3Backend;
  clock: VirtualClock;
  proxy: FaultProxy;
  /** Resolves with the first request that `fault` befell. */
  befell(fault: ProxyFault, which?: (request: ProxiedRequest) => boolean): Promise<ProxiedRequest>;
}

async function staged(deadlines: S3BackendOptions["deadlines"] = {}): Promise<Staged> {
  const inner = await emptyS3(server);
  const proxy = new FaultProxy(server.endpoint);
  const clock = new VirtualClock();
  const place = { ...server, endpoint: proxy.endpoint };
  const backend = await S3Backend.open({ ...backendOptions(place, inner.prefix), clock, deadlines });
  return {
    backend,
    clock,
    proxy,
    befell: (fault, which = () => true) =>
      new Promise((resolve) => {
        proxy.plan = (request) => {
          if (!which(request)) return undefined;
          resolve(request);
          return fault;
        };
      }),
    [Symbol.asyncDispose]: async () => {
      backend.close();
      await proxy[Symbol.asyncDispose]();
      await inner[Symbol.asyncDispose]();
    },
  };
}

/** Whether a promise is still open after everything that could settle it has had its turn. */
async function pending(promise: Promise<unknown>): Promise<boolean> {
  let settled = false;
  promise.then(() => settled = true, () => settled = true);
  for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setTimeout(resolve, 0));
  return !settled;
}

/** Lets all due timers run. */
function turn(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 0));
}

/** Resolves once nothing is under way: no deadline runs, and no connection is open. */
async function over({ clock, proxy }: Staged): Promise<void> {
  while (clock.sleepers > 0 || proxy.connections > 0) await turn();
}

async function failure(promise: Promise<unknown>): Promise<BackendError> {
  const error = await promise.then(() => new Error("it succeeded"), (error) => error);
  assert(error instanceof BackendError, String(error));
  return error;
}

// conformance: 8.object_store
Deno.test("a request without an answer for 60 s fails, and no earlier", async () => {
  await using stage = await staged();
  await stage.backend.put("k", new Uint8Array(10));
  const seen = stage.befell({ kind: "hang" });
  const reading = failure(stage.backend.get("k"));
  await seen;
  await stage.clock.sleeper(MINUTE_MS);
  stage.clock.advance(MINUTE_MS - 1);
  assert(await pending(reading));
  stage.clock.advance(1);
  const error = await reading;
  assertEquals(error.code, "unavailable");
  assertStringIncludes(error.message, "did not begin within 60 s");
});

Deno.test("a conditional write whose answer never begins is ambiguous, and is not tried again", async () => {
  await using stage = await staged();
  const etag = await stage.backend.create("k", new Uint8Array([1]));
  let befallen = 0;
  const seen = stage.befell({ kind: "hang" }, ({ method }) => method === "PUT" && ++befallen > 0);
  const writing = failure(stage.backend.replace("k", new Uint8Array([2]), etag));
  await seen;
  await stage.clock.sleeper(MINUTE_MS);
  stage.clock.advance(MINUTE_MS);
  assertEquals((await writing).code, "ambiguous");
  assertEquals(befallen, 1);
});

Deno.test("a write that took effect before its answer hung is a success once the deadline has passed", async () => {
  await using stage = await staged();
  const etag = await stage.backend.create("k", new Uint8Array([1]));
  const seen = stage.befell({ kind: "hang", after: true }, ({ method }) => method === "PUT");
  const writing = stage.backend.replace("k", new Uint8Array([2]), etag);
  await seen;
  await stage.clock.sleeper(MINUTE_MS);
  // The server does its part in its own time; nothing can be seen of it but the object.
  while ((await stage.backend.get("k")).bytes[0] !== 2);
  stage.clock.advance(MINUTE_MS);
  assertEquals(await writing, (await stage.backend.get("k")).etag);
});

// conformance: 7.read_stalled 8.object_store
Deno.test("a download without a byte for 60 s ends with `read stalled`", async () => {
  await using stage = await staged();
  await stage.backend.put("k", new Uint8Array(MIB));
  const seen = stage.befell({ kind: "stall", body_bytes: 1000 });
  const { chunks } = await stage.backend.getStream("k");
  await seen;
  let got = 0;
  const reading = failure((async () => {
    for await (const chunk of chunks) got += chunk.length;
  })());
  await stage.clock.sleeper(MINUTE_MS);
  while (got < 1000) await new Promise((resolve) => setTimeout(resolve, 0));
  stage.clock.advance(MINUTE_MS - 1);
  assert(await pending(reading));
  stage.clock.advance(1);
  const error = await reading;
  assertEquals([error.code, error.key, got], ["stalled", "k", 1000]);
  assertStringIncludes(error.message, "read stalled");
});

Deno.test("a whole read that stalls ends with `read stalled`, and is not repeated", async () => {
  // Another time than that of the answer's beginning, to distinguish the two.
  const idle_ms = 30_000;
  await using stage = await staged({ idle_ms });
  await stage.backend.put("k", new Uint8Array(MIB));
  const before = stage.proxy.requests.length;
  const seen = stage.befell({ kind: "stall", body_bytes: 0 });
  const reading = failure(stage.backend.get("k"));
  await seen;
  await stage.clock.sleeper(idle_ms);
  assertEquals(stage.clock.sleeping, [idle_ms]);
  stage.clock.advance(idle_ms - 1);
  assert(await pending(reading));
  stage.clock.advance(1);
  assertEquals((await reading).code, "stalled");
  await over(stage);
  assertEquals(stage.proxy.requests.length - before, 1);
});

// conformance: 8.object_store
Deno.test("a listing that stalls after its start fails after 15 min and is not repeated", async () => {
  await using stage = await staged();
  await stage.backend.put("k", new Uint8Array(1));
  const before = stage.proxy.requests.length;
  const seen = stage.befell({ kind: "stall", body_bytes: 20 });
  const listing = failure(Array.fromAsync(stage.backend.list("")));
  await seen;
  while (stage.clock.sleeping.length !== 1) await turn();
  assertEquals(stage.clock.sleeping, [15 * MINUTE_MS]);
  stage.clock.advance(15 * MINUTE_MS - 1);
  assert(await pending(listing));
  stage.clock.advance(1);
  const error = await listing;
  assertEquals(error.code, "unavailable");
  assertStringIncludes(error.message, "did not end within 900 s");
  await over(stage);
  assertEquals(stage.proxy.requests.length - before, 1);
});

Deno.test("no deadline of an attempt passes in the wait for the next one, which has all of its own", async () => {
  await using stage = await staged();
  await stage.backend.put("k", new Uint8Array([7]));
  const before = stage.proxy.requests.length;
  const cut = stage.befell({ kind: "cut" });
  const reading = failure(stage.backend.head("k"));
  await cut;
  // Only the wait is left of the first attempt.
  while (stage.clock.sleeping.length !== 1 || stage.clock.sleeping[0]! > 100) await turn();
  const hung = stage.befell({ kind: "hang" });
  stage.clock.advance(20 * MINUTE_MS);
  await hung;
  await stage.clock.sleeper(MINUTE_MS);
  assertEquals(stage.clock.sleeping, [MINUTE_MS, 15 * MINUTE_MS]);
  stage.clock.advance(MINUTE_MS - 1);
  assert(await pending(reading));
  stage.clock.advance(1);
  assertStringIncludes((await reading).message, "did not begin within 60 s");
  await over(stage);
  assertEquals(stage.proxy.requests.length - before, 2);
});

Deno.test("a wait for the next attempt that lasts beyond every deadline does not fail it", async () => {
  await using stage = await staged();
  await stage.backend.put("k", new Uint8Array([7]));
  const cut = stage.befell({ kind: "cut" });
  const reading = stage.backend.get("k");
  await cut;
  while (stage.clock.sleeping.length !== 1 || stage.clock.sleeping[0]! > 100) await turn();
  stage.proxy.plan = () => undefined;
  stage.clock.advance(60 * MINUTE_MS);
  assertEquals((await reading).bytes, new Uint8Array([7]));
  await over(stage);
});

// conformance: 8.object_store
Deno.test("a download that keeps moving has no deadline, however long it takes", async () => {
  await using stage = await staged();
  await stage.backend.put("k", new Uint8Array(4 * MIB));
  const { chunks } = await stage.backend.getStream("k");
  let got = 0;
  for await (const chunk of chunks) {
    got += chunk.length;
    stage.clock.advance(10 * MINUTE_MS);
  }
  assertEquals(got, 4 * MIB);
});

// conformance: 8.object_store
Deno.test("while a body is sent only the whole call has a deadline, a second more per MiB", async () => {
  await using stage = await staged();
  const seen = stage.befell({ kind: "deaf" }, ({ method }) => method === "PUT");
  const writing = failure(stage.backend.put("k", new Uint8Array(48 * MIB)));
  await seen;
  const total_ms = 15 * MINUTE_MS + 48_000;
  await stage.clock.sleeper(total_ms);
  stage.clock.advance(total_ms - 1);
  assert(await pending(writing));
  assertEquals(stage.clock.sleeping, [total_ms]);
  stage.clock.advance(1);
  assertEquals((await writing).code, "ambiguous");
});

// conformance: 8.object_store
Deno.test("each call of a multipart upload has its own 15 min", async () => {
  await using stage = await staged();
  let parts = 0;
  const seen = stage.befell({ kind: "deaf" }, ({ target }) => target.includes("partNumber=2") && ++parts > 0);
  async function* body(): AsyncGenerator<Uint8Array> {
    for (let chunk = 0; chunk < 10; chunk++) yield await Promise.resolve(new Uint8Array(4 * MIB));
  }
  const writing = failure(stage.backend.put("k", body()));
  await seen;
  // Parts 1 and 3 are through; nothing but part 2 is under way.
  while (stage.clock.sleeping.length !== 1) await new Promise((resolve) => setTimeout(resolve, 1));
  assertEquals(stage.clock.sleeping, [15 * MINUTE_MS]);
  stage.clock.advance(15 * MINUTE_MS - 1);
  assert(await pending(writing));
  stage.clock.advance(1);
  assertEquals((await writing).code, "unavailable");
  assertEquals(parts, 1);
  await assertRejects(() => stage.backend.head("k"), BackendError, "no object");
});
