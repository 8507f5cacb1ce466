import { OUTRIGHT } from "../support/stores.ts";
import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { BackendError } from "../../lib/backend/backend.ts";
import { MemoryBackend } from "../support/memory_backend.ts";
import { S3Backend, type S3BackendOptions } from "../../lib/backend/s3.ts";
import { hasCode } from "../../lib/errors.ts";
import { copyStore } from "../../lib/store/copy_store.ts";
import { collectGarbage } from "../../lib/store/gc.ts";
import { parseAddress } from "../../lib/store/names.ts";
import { Store } from "../../lib/store/store.ts";
import { FaultProxy, type ProxiedRequest, type ProxyFault } from "../support/fault_proxy.ts";
import { startMinio } from "../support/minio.ts";
import { startVersitygw } from "../support/second_s3.ts";
import { backendOptions, emptyS3, type S3Server } from "../support/s3_server.ts";
import { codeOf, type Proxied, proxied as proxiedAt } from "./_proxied.ts";
import { longTest } from "../support/long.ts";

const MIB = 1024 * 1024;
const text = (value: string): Uint8Array => new TextEncoder().encode(value);

let server: S3Server;
let minio: S3Server;
Deno.test.beforeAll(async () => {
  [server, minio] = await Promise.all([startVersitygw(), startMinio()]);
});
Deno.test.afterAll(async () => {
  await server[Symbol.asyncDispose]();
  await minio[Symbol.asyncDispose]();
});

/** A store behind a proxy, at versitygw by default. */
function proxied(options: Partial<S3BackendOptions> & { at?: S3Server } = {}): Promise<Proxied> {
  const { at = server, ...backend_options } = options;
  return proxiedAt(at, backend_options);
}

const isPut = ({ method }: ProxiedRequest): boolean => method === "PUT";
const isGet = ({ method }: ProxiedRequest): boolean => method === "GET";

/** What may befall a write that is repeated or found to stand. */
const SURVIVED: Record<string, ProxyFault[]> = {
  "cut off before it arrived": [{ kind: "cut" }],
  "whose answer was cut off": [{ kind: "cut_answer" }],
  "answered 412 after it succeeded": [{ kind: "answer", status: 412, code: "PreconditionFailed", after: true }],
  "answered 409 after it succeeded": [{ kind: "answer", status: 409, code: "ConditionalRequestConflict", after: true }],
  "answered 409 while it did nothing": [{ kind: "answer", status: 409, code: "ConditionalRequestConflict" }],
  "answered 500 after it succeeded": [{ kind: "answer", status: 500, code: "InternalError", after: true }],
  "answered 500 while it did nothing": [{ kind: "answer", status: 500, code: "InternalError" }],
  "asked to slow down, twice": [
    { kind: "answer", status: 503, code: "SlowDown" },
    { kind: "answer", status: 503, code: "SlowDown" },
  ],
  "cut off, then answered 412 by what arrived late": [
    { kind: "cut_answer" },
    { kind: "answer", status: 412, code: "PreconditionFailed" },
  ],
};

for (const [what, faults] of Object.entries(SURVIVED)) {
  Deno.test(`a create ${what} succeeds once`, async () => {
    await using stage = await proxied();
    stage.script(isPut, ...faults);
    const etag = await stage.backend.create("k", text("mine"));
    assertEquals(await stage.direct.get("k"), { bytes: text("mine"), etag });
  });

  Deno.test(`a replace ${what} succeeds once`, async () => {
    await using stage = await proxied();
    const before = await stage.direct.create("k", text("old"));
    stage.script(isPut, ...faults);
    const etag = await stage.backend.replace("k", text("mine"), before);
    assertEquals(await stage.direct.get("k"), { bytes: text("mine"), etag });
  });
}

Deno.test("a create that meets another's object is refused, even where the content is the same", async () => {
  await using stage = await proxied();
  await stage.direct.create("k", text("same"));
  assertEquals(await codeOf(stage.backend.create("k", text("same"))), "precondition_failed");
});

Deno.test("a write is ambiguous when its answers are lost and another object is there", async () => {
  await using stage = await proxied();
  const before = await stage.direct.create("k", text("old"));
  let after = Promise.resolve("");
  stage.proxy.plan = (request) => {
    if (!isPut(request)) return undefined;
    // Between the lost answer and the look a rival takes over from our write, or writes instead of it.
    after = after.then(async () => await stage.direct.put("k", text("rival")) as unknown as string);
    return { kind: "cut" };
  };
  assertEquals(await codeOf(stage.backend.replace("k", text("mine"), before)), "ambiguous");
  await after;
});

longTest("writes that a server never answers are ambiguous, and a refused connection is not", async () => {
  await using stage = await proxied();
  stage.proxy.plan = (request) => isPut(request) ? { kind: "cut" } : undefined;
  assertEquals(await codeOf(stage.backend.create("k", text("x"))), "ambiguous");
  stage.proxy.plan = () => undefined;
  await stage.proxy[Symbol.asyncDispose]();
  assertEquals(await codeOf(stage.backend.create("k", text("x"))), "unavailable");
  assertEquals(await codeOf(stage.backend.get("k")), "unavailable");
});

Deno.test("a read is repeated through resets, 500 and 503", async () => {
  await using stage = await proxied();
  await stage.direct.put("k", text("content"));
  const left = stage.script(
    () => true,
    { kind: "cut" },
    { kind: "answer", status: 500, code: "InternalError" },
    { kind: "answer", status: 503, code: "SlowDown" },
    { kind: "cut_answer" },
  );
  assertEquals((await stage.backend.get("k")).bytes, text("content"));
  assertEquals(left(), 0);
});

Deno.test("a download that breaks off goes on where it was, of the very same object", async () => {
  await using stage = await proxied();
  const bytes = crypto.getRandomValues(new Uint8Array(65536));
  await stage.direct.put("k", bytes);
  stage.script(isGet, { kind: "truncate", body_bytes: 1000 }, { kind: "truncate", body_bytes: 20_000 });
  const parts: Uint8Array<ArrayBuffer>[] = [];
  for await (const chunk of (await stage.backend.getStream("k")).chunks) parts.push(chunk.slice());
  assertEquals(await new Blob(parts).bytes(), bytes);
  const asked = stage.proxy.requests.filter(isGet).slice(-2).map(({ headers }) => [headers.range, headers["if-match"]]);
  const { etag } = await stage.direct.get("k");
  assertEquals(asked, [["bytes=1000-", `"${etag}"`], ["bytes=21000-", `"${etag}"`]]);
});

Deno.test("a download whose object was replaced in the middle fails and mixes nothing", async () => {
  await using stage = await proxied();
  await stage.direct.put("k", new Uint8Array(65536).fill(1));
  stage.script(isGet, { kind: "truncate", body_bytes: 1000 });
  const { chunks } = await stage.backend.getStream("k");
  await stage.direct.put("k", new Uint8Array(65536).fill(2));
  const error = await assertRejects(async () => {
    for await (const chunk of chunks) assert(chunk.every((byte) => byte === 1));
  }, BackendError);
  assertEquals(error.code, "unavailable");
});

Deno.test("a short answer to get() and getRange() is never taken for the whole", async () => {
  await using stage = await proxied();
  const bytes = crypto.getRandomValues(new Uint8Array(50_000));
  await stage.direct.put("k", bytes);
  stage.script(isGet, { kind: "truncate", body_bytes: 10 }, { kind: "truncate", body_bytes: 0 });
  assertEquals((await stage.backend.get("k")).bytes, bytes);
  stage.script(isGet, { kind: "truncate", body_bytes: 10 });
  assertEquals(await stage.backend.getRange("k", 100, 1000), bytes.subarray(100, 1100));
});

Deno.test("a multipart upload survives lost parts and a lost completion", async () => {
  await using stage = await proxied({ part_bytes: 5 * MIB });
  const bytes = new Uint8Array(12 * MIB).fill(7);
  const left = stage.script(
    ({ target }) => target.includes("partNumber=") || /[?&]uploadId=[^&]*$/.test(target),
    { kind: "cut" },
    { kind: "cut_answer" },
    { kind: "answer", status: 503, code: "SlowDown" },
    { kind: "answer", status: 500, code: "InternalError", after: true },
  );
  async function* body(): AsyncGenerator<Uint8Array> {
    for (let at = 0; at < bytes.length; at += MIB) yield await Promise.resolve(bytes.subarray(at, at + MIB));
  }
  await stage.backend.put("k", body());
  assertEquals(left(), 0);
  assertEquals((await stage.direct.get("k")).bytes, bytes);
});

Deno.test("a multipart completion whose answer was lost is found to stand", async () => {
  await using stage = await proxied({ part_bytes: 5 * MIB });
  let completions = 0;
  stage.proxy.plan = ({ method, target }) =>
    method === "POST" && target.includes("uploadId=") && ++completions === 1 ? { kind: "cut_answer" } : undefined;
  async function* body(): AsyncGenerator<Uint8Array> {
    yield await Promise.resolve(new Uint8Array(6 * MIB));
  }
  await stage.backend.put("k", body());
  assert(completions > 0);
  assertEquals((await stage.direct.head("k")).size, 6 * MIB);
});

Deno.test("a failed upload is aborted at the server", async () => {
  await using stage = await proxied({ part_bytes: 5 * MIB });
  async function* body(): AsyncGenerator<Uint8Array> {
    yield await Promise.resolve(new Uint8Array(11 * MIB));
    throw new RangeError("the source broke");
  }
  await assertRejects(() => stage.backend.put("k", body()), RangeError);
  const last = stage.proxy.requests.at(-1)!;
  assertEquals([last.method, last.target.includes("uploadId=")], ["DELETE", true]);
});

Deno.test("a source is closed though its upload never begins", async () => {
  await using stage = await proxied({ part_bytes: 5 * MIB });
  let closed = false;
  async function* source(): AsyncGenerator<Uint8Array> {
    try {
      for (let chunk = 0; chunk < 20; chunk++) yield await Promise.resolve(new Uint8Array(MIB));
    } finally {
      closed = true;
    }
  }
  stage.proxy.plan = ({ method, target }) =>
    method === "POST" && /[?&]uploads\b/.test(target)
      ? { kind: "answer", status: 403, code: "AccessDenied" }
      : undefined;
  assertEquals(await codeOf(stage.backend.put("k", source())), "denied");
  assert(closed);
});

Deno.test("a delete that is lost or refused by its own repetition still deletes that version only", async () => {
  const faults: ProxyFault[][] = [
    [{ kind: "cut" }],
    [{ kind: "cut_answer" }],
    [{ kind: "answer", status: 412, code: "PreconditionFailed", after: true }],
    [{ kind: "answer", status: 503, code: "SlowDown" }],
  ];
  for (const at of [server, minio]) {
    await using stage = await proxied({ at });
    for (const script of faults) {
      const etag = await stage.direct.create("k", text("x"));
      stage.script(({ method }) => method === "DELETE", ...script);
      await stage.backend.delete("k", { if_match: etag });
      assertEquals(await codeOf(stage.direct.get("k")), "not_found");
    }
  }
});

Deno.test("an interrupted two-step delete hides the object, and a later create replaces it", async () => {
  await using stage = await proxied({ at: minio });
  const etag = await stage.backend.create("k", text("old"));
  stage.proxy.plan = ({ method }) => method === "DELETE" ? { kind: "cut" } : undefined;
  await stage.backend.delete("k", { if_match: etag });
  for (const backend of [stage.backend, stage.direct]) {
    assertEquals(await codeOf(backend.get("k")), "not_found");
    assertEquals(await codeOf(backend.head("k")), "not_found");
    assertEquals(await codeOf(backend.getStream("k")), "not_found");
    assertEquals(await codeOf(backend.delete("k")), "not_found");
    assertEquals(await codeOf(backend.copy("k", "other")), "not_found");
    assertEquals(await codeOf(backend.replace("k", text("x"), etag)), "precondition_failed");
  }
  const young = await assertRejects(() => stage.backend.create("k", text("new")), BackendError, "is being deleted");
  assertEquals(young.code, "unavailable");
  // An hour later by the server's clock no delete can be under way any more.
  const late = (answer: string) =>
    answer.replace(/^Date: (.*)\r$/im, (_, date) => `Date: ${new Date(Date.parse(date) + 3_600_000).toUTCString()}\r`);
  stage.proxy.plan = ({ method }) => method === "HEAD" ? { kind: "rewrite", answer: late } : undefined;
  const fresh = await stage.backend.create("k", text("new"));
  assertEquals(await stage.direct.get("k"), { bytes: text("new"), etag: fresh });
});

Deno.test("an interrupted deletion hides the branch at once and frees its name later", async () => {
  await using stage = await proxied({ at: minio });
  const workspace = await Deno.makeTempDir({ prefix: "s3-cut-" });
  try {
    using store = await Store.open({ backend: stage.backend, workspace });
    const at = parseAddress;
    await store.create("shop");
    await store.fork(at("shop"), "try");
    stage.proxy.plan = ({ method }) => method === "DELETE" ? { kind: "cut" } : undefined;
    await store.destroy(at("shop@try"), OUTRIGHT);
    stage.proxy.plan = () => undefined;
    assertEquals((await store.branches()).map(({ branch }) => branch), ["main"]);
    assertEquals((await store.databases()).length, 1);
    assertEquals(hasCode(await store.status(at("shop@try")).catch((error) => error), "not_found"), true);
    assertEquals(hasCode(await store.fork(at("shop"), "try").catch((error) => error), "unavailable"), true);
    await collectGarbage(store.context, { grace_ms: 0 });
    const elsewhere = new MemoryBackend();
    assertEquals((await copyStore(stage.backend, elsewhere)).branches, 1);
  } finally {
    await Deno.remove(workspace, { recursive: true });
  }
});

Deno.test("a write that is denied in passing, as beside a deletion, is made all the same", async () => {
  await using stage = await proxied();
  let denied = 0;
  stage.proxy.plan = (request) =>
    isPut(request) && denied++ === 0 ? { kind: "answer", status: 403, code: "AccessDenied" } : undefined;
  await stage.backend.create("k", text("x"));
  assertEquals(denied, 2);
  assertEquals((await stage.backend.get("k")).bytes, text("x"));
});

Deno.test("refused access is `denied`, for writes after retries, and no error holds a secret", async () => {
  await using stage = await proxied();
  stage.proxy.plan = () => ({ kind: "answer", status: 403, code: "AccessDenied" });
  const before = stage.proxy.requests.length;
  const calls = [
    () => stage.backend.get("k"),
    () => stage.backend.create("k", text("x")),
    () => stage.backend.put("k", text("x")),
  ];
  for (const call of calls) assertEquals(await codeOf(call()), "denied");
  // One read; two writes, each made four times.
  assertEquals(stage.proxy.requests.length - before, 1 + 2 * 4);
  const credentials = { access_key_id: "who", secret_access_key: "hidden-key", session_token: "hidden-token" };
  const error = await assertRejects(
    () => S3Backend.open({ ...backendOptions(server, "elsewhere"), credentials }),
    BackendError,
  );
  assertEquals(error.code, "denied");
  for (let at: unknown = error; at instanceof Error; at = at.cause) {
    assertEquals(/hidden|Signature=/.test(`${at.message} ${Deno.inspect(at)}`), false);
  }
});

Deno.test("a bucket that does not exist, or is gone, is never taken for an empty one", async () => {
  const error = await assertRejects(
    () => S3Backend.open({ ...backendOptions(server, "x"), bucket: "no-such-bucket" }),
    BackendError,
    "no-such-bucket",
  );
  assertEquals(error.code, "not_found");
  await using stage = await proxied();
  stage.proxy.plan = () => ({ kind: "answer", status: 404, code: "NoSuchBucket" });
  assertEquals(await codeOf(stage.backend.get("k")), "unavailable");
  assertEquals(await codeOf(stage.backend.create("k", text("x"))), "unavailable");
});

Deno.test("a full server is `no_space`", async () => {
  await using stage = await proxied();
  stage.proxy.plan = (request) =>
    isPut(request) ? { kind: "answer", status: 507, code: "XMinioStorageFull" } : undefined;
  assertEquals(await codeOf(stage.backend.create("k", text("x"))), "no_space");
  assertEquals(await codeOf(stage.backend.put("k", text("x"))), "no_space");
});

/** Answers as a server with a defect gives them, and what the refusal says of it. */
const DEFECTS: Record<string, { which: (request: ProxiedRequest) => boolean; answer: (answer: string) => string }> = {
  "If-None-Match: *) replaced": {
    which: ({ headers }) => headers["if-none-match"] !== undefined,
    answer: (answer) => answer.startsWith("HTTP/1.1 412") ? WRITTEN : answer,
  },
  "wrong etag (If-Match) replaced": {
    which: ({ headers, target }) => headers["if-match"] !== undefined && target.includes("/one"),
    answer: (answer) => answer.startsWith("HTTP/1.1 412") ? WRITTEN : answer,
  },
  "made a missing object": {
    which: ({ headers, target }) => headers["if-match"] !== undefined && target.includes("/none"),
    answer: () => WRITTEN,
  },
  "different etags": {
    which: ({ method, target }) => method === "HEAD" && target.includes("/one"),
    answer: (answer) => answer.replace(/^etag: .*\r$/im, 'ETag: "00000000000000000000000000000000"\r'),
  },
  "does not keep an object's metadata": {
    which: ({ method, target }) => method === "HEAD" && target.includes("/one"),
    answer: (answer) => answer.replace(/^x-amz-meta-[^\r]*\r\n/gim, ""),
  },
  "parallel creates of one object succeeded": {
    which: ({ method, target }) => method === "PUT" && target.includes("/rivals"),
    answer: (answer) => answer.startsWith("HTTP/1.1 412") ? WRITTEN : answer,
  },
  "lost to a rival": {
    which: ({ method, target }) => method === "HEAD" && target.includes("/rivals"),
    answer: (answer) => answer.replace(/^(x-amz-meta-[^:]*: ).*\r$/gim, "$1another-writer\r"),
  },
  "old etag (If-Match) replaced": {
    which: ({ headers, target }) => headers["if-match"] !== undefined && target.includes("/one"),
    answer: laxOnceReplaced(),
  },
  "not in a listing": {
    which: ({ target }) => target.includes("list-type=2"),
    answer: (answer) => answer.replace(/\/one<\/Key>/, "/two</Key>"),
  },
};
/** The answers of a server that takes any etag once an object has been replaced. */
function laxOnceReplaced(): (answer: string) => string {
  let replaced = false;
  return (answer) => {
    if (replaced && answer.startsWith("HTTP/1.1 412")) return WRITTEN;
    replaced ||= answer.startsWith("HTTP/1.1 200");
    return answer;
  };
}
const WRITTEN = 'HTTP/1.1 200 OK\r\nETag: "11111111111111111111111111111111"\r\nContent-Length: 0\r\n' +
  "Connection: close\r\n\r\n";

for (const [wrong, { which, answer }] of Object.entries(DEFECTS)) {
  Deno.test(`a server is refused, and left clean, when ${wrong}`, async () => {
    await using inner = await emptyS3(server);
    await using proxy = new FaultProxy(server.endpoint);
    proxy.plan = (request) => which(request) ? { kind: "rewrite", answer } : undefined;
    const options = backendOptions({ ...server, endpoint: proxy.endpoint }, inner.prefix);
    const error = await assertRejects(() => S3Backend.open(options), BackendError);
    assertEquals(error.code, "denied");
    assertStringIncludes(error.message, wrong);
    // The prefix as its own bucket would see it: nothing of the probe is left.
    const left = await fetchListing(inner.prefix);
    assertEquals(left, []);
    // A defect is not remembered: once it is mended the same place can be opened.
    proxy.plan = () => undefined;
    (await S3Backend.open(options)).close();
  });
}

/** Keys below a prefix, those that a backend hides as well. */
async function fetchListing(prefix: string): Promise<string[]> {
  const { S3Client, ListObjectsV2Command } = await import("@aws-sdk/client-s3");
  const { endpoint, bucket, credentials } = server;
  const client = new S3Client({
    endpoint,
    region: "us-east-1",
    forcePathStyle: true,
    credentials: { accessKeyId: credentials.access_key_id, secretAccessKey: credentials.secret_access_key },
  });
  const { Contents = [] } = await client.send(new ListObjectsV2Command({ Bucket: bucket, Prefix: `${prefix}/` }));
  client.destroy();
  return Contents.map(({ Key }) => Key ?? "");
}
