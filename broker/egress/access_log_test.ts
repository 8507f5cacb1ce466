import { assertEquals, assertMatch } from "@std/assert";
import fc from "../../tests/packages/fast_check.ts";
import { join } from "@std/path/join";
import { TaskdError } from "../../lib/errors.ts";
import { assertThrows } from "@std/assert";
import { ACCESS_LOG_NAME, AccessLog, formatLogLine } from "./access_log.ts";
import type { EgressDecision } from "./decision.ts";

const TUNNEL: EgressDecision = {
  at_ms: Date.UTC(2026, 0, 2, 3, 4, 5, 6),
  task_id: "0123456789abcdef",
  peer: "192.168.66.7",
  method: "CONNECT",
  host: "example.com",
  port: 443,
  url: "example.com:443",
  verdict: "allowed",
  reason: "allowed",
  status: 200,
  address: "93.184.216.34",
};
const DENIED: EgressDecision = {
  at_ms: 1_000,
  peer: "192.168.66.7",
  method: "CONNECT",
  url: "evil.com:443",
  verdict: "denied",
  reason: "not_listed",
  status: 403,
};
const OUTCOME = { elapsed_ms: 180.4, sent_bytes: 4_343 };

/** Runs `test` with a directory of its own. */
async function inDirectory(test: (directory: string) => void | Promise<void>): Promise<void> {
  const directory = await Deno.makeTempDir();
  try {
    await test(join(directory, "squid"));
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
}

Deno.test("a line has squid's ten fields, and the reason after them", () => {
  assertEquals(
    formatLogLine(TUNNEL, OUTCOME),
    "1767323045.006    180 192.168.66.7 TCP_TUNNEL/200 4343 CONNECT example.com:443 0123456789abcdef " +
      "HIER_DIRECT/93.184.216.34 - reason=allowed\n",
  );
  assertEquals(
    formatLogLine({ ...DENIED, detail: "listed: 443" }, { elapsed_ms: 0, sent_bytes: 0 }),
    "1.000      0 192.168.66.7 TCP_DENIED/403 0 CONNECT evil.com:443 - HIER_NONE/- - reason=not_listed;listed:%20443\n",
  );
  const plain = { ...TUNNEL, method: "GET", url: "http://example.com/a", status: 404 };
  assertMatch(formatLogLine(plain, OUTCOME), / TCP_MISS\/404 4343 GET http:\/\/example\.com\/a /);
  assertMatch(formatLogLine({ ...TUNNEL, verdict: "failed", status: 0 }, OUTCOME), / TCP_TUNNEL\/000 /);
});

Deno.test("text from outside ends no line, begins no field and holds nothing that a terminal acts on", () => {
  fc.assert(fc.property(fc.string({ unit: "binary" }), fc.string({ unit: "binary" }), (url, method) => {
    const line = formatLogLine({ ...TUNNEL, url, method, peer: url, detail: url }, OUTCOME);
    assertMatch(line, /^[\x20-\x7e]*\n$/);
    assertEquals(line.trimEnd().split(/ +/).length, 11);
  }));
  const forged = formatLogLine({ ...TUNNEL, url: "a\n1.000 0 x TCP_TUNNEL/200\x1b[2J" }, OUTCOME);
  assertEquals(forged.split("\n").length, 2);
  assertEquals(formatLogLine({ ...TUNNEL, url: "x".repeat(100_000) }, OUTCOME).length < 3_000, true);
});

Deno.test("the log is its owner's alone, goes on where it was, and is written before write() returns", async () => {
  await inDirectory((directory) => {
    const path = join(directory, ACCESS_LOG_NAME);
    for (let i = 1; i <= 2; i++) {
      const log = AccessLog.open(directory);
      log.write(DENIED, OUTCOME);
      assertEquals(Deno.readTextFileSync(path).split("\n").length, i + 1);
      log.close();
      assertEquals(Deno.statSync(path).mode! & 0o777, 0o600);
      Deno.chmodSync(path, 0o644);
    }
    assertEquals(Deno.statSync(directory).mode! & 0o777, 0o700);
  });
});

Deno.test("a log at its limit is set aside, one before it is kept, and no line is lost in between", async () => {
  await inDirectory((directory) => {
    const line_bytes = formatLogLine(DENIED, OUTCOME).length;
    const log = AccessLog.open(directory, 3 * line_bytes);
    for (let i = 0; i < 5; i++) log.write(DENIED, OUTCOME);
    log.close();
    const lines = (name: string) => Deno.readTextFileSync(join(directory, name)).split("\n").length - 1;
    assertEquals([lines(`${ACCESS_LOG_NAME}.0`), lines(ACCESS_LOG_NAME)], [3, 2]);
    assertEquals(Deno.statSync(join(directory, ACCESS_LOG_NAME)).mode! & 0o777, 0o600);
  });
});

Deno.test("a log that was moved away is replaced at its limit, and goes on being written", async () => {
  await inDirectory((directory) => {
    const path = join(directory, ACCESS_LOG_NAME);
    const log = AccessLog.open(directory, 2 * formatLogLine(DENIED, OUTCOME).length);
    for (let i = 0; i < 2; i++) log.write(DENIED, OUTCOME);
    Deno.renameSync(path, `${path}.mine`);
    for (let i = 0; i < 3; i++) {
      log.write(DENIED, OUTCOME);
      assertEquals(log.healthy, true);
    }
    log.close();
    assertEquals(Deno.readTextFileSync(path).split("\n").length - 1, 1);
    assertEquals(Deno.readTextFileSync(`${path}.mine`).split("\n").length - 1, 2);
  });
});

Deno.test("the error of a log that cannot be opened names it", async () => {
  await inDirectory((directory) => {
    Deno.writeTextFileSync(directory, "in the way");
    assertMatch(
      assertThrows(() => AccessLog.open(directory), TaskdError).message,
      /Cannot open the access log .*squid/,
    );
  });
});
