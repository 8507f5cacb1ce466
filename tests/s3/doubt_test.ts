import { assertEquals } from "@std/assert";
import type { ProxiedRequest, ProxyFault } from "../support/fault_proxy.ts";
import { startMinio } from "../support/minio.ts";
import type { S3Server } from "../support/s3_server.ts";
import { startVersitygw } from "../support/second_s3.ts";
import { codeOf, proxied } from "./_proxied.ts";
import { longTest } from "../support/long.ts";

const MIB = 1024 * 1024;
const text = (value: string): Uint8Array => new TextEncoder().encode(value);

let versitygw: S3Server;
let minio: S3Server;
Deno.test.beforeAll(async () => {
  [versitygw, minio] = await Promise.all([startVersitygw(), startMinio()]);
});
Deno.test.afterAll(async () => {
  await versitygw[Symbol.asyncDispose]();
  await minio[Symbol.asyncDispose]();
});

const REFUSED: ProxyFault = { kind: "answer", status: 412, code: "PreconditionFailed" };
const CONFLICT: ProxyFault = { kind: "answer", status: 409, code: "ConditionalRequestConflict" };
const BROKEN: ProxyFault = { kind: "answer", status: 500, code: "InternalError" };
const BUSY: ProxyFault = { kind: "answer", status: 503, code: "SlowDown" };
/** More than a write is attempted. */
const ALWAYS = 100;

const isPut = ({ method }: ProxiedRequest): boolean => method === "PUT";
const isGet = ({ method }: ProxiedRequest): boolean => method === "GET";
const isHead = ({ method }: ProxiedRequest): boolean => method === "HEAD";

/** A HEAD's answer with another etag. */
function withEtag(etag: string): ProxyFault {
  return { kind: "rewrite", answer: (answer) => answer.replace(/^etag: .*\r$/im, `ETag: "${etag}"\r`) };
}

/** Answers of server and network to a write that did nothing, and its resulting code. */
const UNDECIDED: Record<string, { faults: ProxyFault[]; code: string }> = {
  "cut off and then refused": { faults: [{ kind: "cut" }, REFUSED], code: "ambiguous" },
  "answered 500 and then refused": { faults: [BROKEN, REFUSED], code: "ambiguous" },
  "answered 500 every time": { faults: Array(ALWAYS).fill(BROKEN), code: "ambiguous" },
  "answered 409 every time": { faults: Array(ALWAYS).fill(CONFLICT), code: "ambiguous" },
  "asked to slow down every time": { faults: Array(ALWAYS).fill(BUSY), code: "unavailable" },
};

for (const [what, { faults, code }] of Object.entries(UNDECIDED)) {
  // Every try with its pauses takes seconds.
  const define = faults.length === ALWAYS ? longTest : Deno.test;
  define(`a write ${what} is ${code}`, async () => {
    await using stage = await proxied(versitygw);
    const before = await stage.direct.create("old", text("old"));
    for (
      const write of [
        () => stage.backend.create("new", text("mine")),
        () => stage.backend.replace("old", text("mine"), before),
      ]
    ) {
      stage.script(isPut, ...faults);
      assertEquals(await codeOf(write()), code);
    }
    assertEquals(await codeOf(stage.direct.get("new")), "not_found");
    assertEquals((await stage.direct.get("old")).etag, before);
  });
}

Deno.test("a delete of another version than the one that is there asks the server for no change", async () => {
  for (const at of [versitygw, minio]) {
    await using stage = await proxied(at);
    const old = await stage.direct.create("k", text("old"));
    const etag = await stage.direct.replace("k", text("new"), old);
    const from = stage.proxy.requests.length;
    assertEquals(await codeOf(stage.backend.delete("k", { if_match: old })), "precondition_failed");
    assertEquals(stage.proxy.requests.slice(from).filter((request) => !isHead(request)), []);
    assertEquals(await stage.direct.get("k"), { bytes: text("new"), etag });
  }
});

Deno.test("an object that is replaced between the look and the delete stays", async () => {
  for (const at of [versitygw, minio]) {
    await using stage = await proxied(at);
    const old = await stage.direct.create("k", text("old"));
    const etag = await stage.direct.replace("k", text("new"), old);
    // The look as it was before the rival came.
    const from = stage.proxy.requests.length;
    const left = stage.script(isHead, withEtag(old));
    assertEquals(await codeOf(stage.backend.delete("k", { if_match: old })), "precondition_failed");
    assertEquals(left(), 0);
    const changes = stage.proxy.requests.slice(from).filter((request) => !isHead(request));
    assertEquals(changes.map(({ method }) => method), ["PUT"]);
    assertEquals(changes[0]?.headers["if-match"], `"${old}"`);
    assertEquals(await stage.direct.get("k"), { bytes: text("new"), etag });
  }
});

Deno.test("no server has to keep the condition of a delete: a write has it", async () => {
  await using stage = await proxied(minio);
  const etag = await stage.direct.create("k", text("x"));
  const from = stage.proxy.requests.length;
  await stage.backend.delete("k", { if_match: etag });
  const changes = stage.proxy.requests.slice(from).filter((request) => !isHead(request));
  assertEquals(changes.map(({ method, headers }) => [method, headers["if-match"]]), [
    ["PUT", `"${etag}"`],
    ["DELETE", undefined],
  ]);
});

Deno.test("a copy whose source is replaced meanwhile fails, and nothing is copied", async () => {
  for (const at of [versitygw, minio]) {
    await using stage = await proxied(at, { single_copy_bytes: 5 * MIB });
    for (const size of [10, 6 * MIB]) {
      await stage.direct.put("from", new Uint8Array(size).fill(2));
      const left = stage.script(isHead, withEtag("0".repeat(32)));
      assertEquals(await codeOf(stage.backend.copy("from", "to")), "precondition_failed");
      assertEquals(left(), 0);
      assertEquals(await codeOf(stage.direct.head("to")), "not_found");
    }
  }
});

Deno.test("a listing that ends in the middle is an error, never a short listing", async () => {
  await using stage = await proxied(versitygw);
  await stage.direct.create("a/1", text("x"));
  stage.proxy.plan = ({ target }) =>
    target.includes("list-type=2")
      ? {
        kind: "rewrite",
        answer: (answer) => answer.replace("<IsTruncated>false</IsTruncated>", "<IsTruncated>true</IsTruncated> "),
      }
      : undefined;
  assertEquals(await codeOf(Array.fromAsync(stage.backend.list("a/"))), "unavailable");
});

const CONTENT = "right".repeat(4000);

/** Answers that are not what was asked for; wherever they are believed, it shows. */
function wrongly(header: RegExp, instead: string): ProxyFault {
  return { kind: "rewrite", answer: (answer) => answer.replace(header, instead).replaceAll("right", "wrong") };
}

/** An answer that is whole by its own account, ten bytes before its end. */
const SHORTER: ProxyFault = {
  kind: "rewrite",
  answer: (answer) =>
    answer.replace(/^content-length: (\d+)\r$/im, (_, size) => `Content-Length: ${Number(size) - 10}\r`).slice(0, -10),
};

Deno.test("a download goes on with nothing but the rest of its object", async () => {
  await using stage = await proxied(versitygw);
  await stage.direct.put("k", text(CONTENT));
  const left = stage.script(
    isGet,
    { kind: "truncate", body_bytes: 1000 },
    wrongly(/^etag: .*\r$/im, `ETag: "${"0".repeat(32)}"\r`),
    wrongly(/^content-range: bytes 1000-/im, "Content-Range: bytes 995-"),
    wrongly(/^(content-range: .*)\/20000\r$/im, "$1/20005\r"),
    SHORTER,
  );
  const { chunks } = await stage.backend.getStream("k");
  assertEquals(await new Response(ReadableStream.from(chunks)).text(), CONTENT);
  assertEquals(left(), 0);
});

Deno.test("a range is neither of other bytes than were asked for nor padded", async () => {
  await using stage = await proxied(versitygw);
  await stage.direct.put("k", text(CONTENT));
  const left = stage.script(
    isGet,
    wrongly(/^content-range: bytes 5000-/im, "Content-Range: bytes 5005-"),
    SHORTER,
  );
  assertEquals(await stage.backend.getRange("k", 5000, 100), text(CONTENT.slice(0, 100)));
  assertEquals(left(), 0);
});

Deno.test("an object over the size that is asked for is not read", async () => {
  await using stage = await proxied(versitygw);
  await stage.direct.put("k", text("12345"));
  assertEquals(await codeOf(stage.backend.get("k", { max_bytes: 4 })), "unavailable");
  assertEquals((await stage.backend.get("k", { max_bytes: 5 })).bytes, text("12345"));
});
