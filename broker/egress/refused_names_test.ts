import { assertEquals } from "@std/assert";
import { formatLogLine } from "./access_log.ts";
import type { EgressDecision } from "./decision.ts";
import { RefusedNames } from "./refused_names.ts";

const DENIED = { at_ms: 5_000, peer: "10.1.1.1", verdict: "denied", status: 403 } as const;
const ENDED = { elapsed_ms: 3, sent_bytes: 200 };

const tunnel = (more: Partial<EgressDecision> = {}): string =>
  formatLogLine(
    { ...DENIED, method: "CONNECT", url: "a.example:443", task_id: "t1", reason: "not_listed", ...more },
    ENDED,
  ).trimEnd();

Deno.test("names that no list has are counted by host and port, with the tasks that asked and when", () => {
  const names = new RefusedNames(0);
  for (
    const line of [
      tunnel(),
      tunnel({ at_ms: 9_000 }),
      tunnel({ task_id: "t2", url: "b.example:8443", reason: "port_not_listed", detail: "listed: 443" }),
      tunnel({ task_id: "t3", url: "b.example:8443" }),
      tunnel({ method: "GET", url: "http://c.example/path" }),
      tunnel({ method: "GET", url: "http://c.example:8080/" }),
    ]
  ) names.add(line);
  assertEquals(names.list(), [
    { host: "b.example", port: 8443, requests: 2, tasks: 2, last_ms: 5_000 },
    { host: "a.example", port: 443, requests: 2, tasks: 1, last_ms: 9_000 },
    { host: "c.example", port: 80, requests: 1, tasks: 1, last_ms: 5_000 },
    { host: "c.example", port: 8080, requests: 1, tasks: 1, last_ms: 5_000 },
  ]);
});

Deno.test("what was allowed, refused for another reason, too old or no line of the log is not counted", () => {
  const names = new RefusedNames(5_001);
  for (
    const line of [
      tunnel(),
      tunnel({ at_ms: 6_000, reason: "address_refused" }),
      tunnel({ at_ms: 6_000, reason: "allowed", verdict: "allowed", status: 200 }),
      tunnel({ at_ms: 6_000, url: "169.254.169.254:443" }),
      tunnel({ at_ms: 6_000, url: "a b\n.example:443" }),
      "",
      "6.000 1 x TCP_DENIED/403 1 CONNECT a.example:443 t1 HIER_NONE/- - reason=not_listed_at_all",
    ]
  ) names.add(line);
  assertEquals(names.list(), []);
});

Deno.test("a log is read line by line, and one that is not there has nothing", async () => {
  const directory = await Deno.makeTempDir();
  try {
    const names = new RefusedNames(0);
    await Deno.writeTextFile(`${directory}/access.log`, `${tunnel()}\n`.repeat(1_000) + tunnel());
    await names.read(`${directory}/access.log`);
    await names.read(`${directory}/access.log.0`);
    assertEquals(names.list().map(({ requests }) => requests), [1_000]);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
});

Deno.test("a flood of names is counted up to a bound", () => {
  const names = new RefusedNames(0);
  for (let i = 0; i < 10_050; i++) names.add(tunnel({ url: `n${i}.example:443` }));
  assertEquals(names.list().length, 10_000);
});
