import { assertEquals, assertStringIncludes } from "@std/assert";
import { formatLogLine } from "../../broker/egress/access_log.ts";
import { makeBrokerHost, SPEND } from "./support/broker.ts";
import { configure, EMBEDDED, makeBrokerPlace } from "./support/broker_place.ts";

const REFUSED = { peer: "10.1.1.1", method: "CONNECT", verdict: "denied", status: 403, reason: "not_listed" } as const;

Deno.test("egress suggest shows what was refused and is not listed, and egress allow lists it", async () => {
  await using place = await makeBrokerPlace();
  await configure(place, EMBEDDED);
  await Deno.writeTextFile(`${place.home}/.taskd/egress.yaml`, "# Ours.\nallow:\n  - host: a.example.com\n", {
    mode: 0o600,
  });
  const logs = `${place.home}/.taskd/squid`;
  await Deno.mkdir(logs, { mode: 0o700 });
  const at_ms = Date.UTC(2026, 0, 1);
  const line = (url: string, task_id: string) =>
    formatLogLine({ ...REFUSED, at_ms, url, task_id }, { elapsed_ms: 1, sent_bytes: 1 });
  await Deno.writeTextFile(`${logs}/access.log.0`, line("b.example.com:443", "t1") + line("a.example.com:443", "t1"));
  await Deno.writeTextFile(`${logs}/access.log`, line("b.example.com:443", "t2") + line("c.example.com:8443", "t2"));
  assertEquals((await place.json(["egress", "suggest"])).refused, [
    { host: "b.example.com", port: 443, requests: 2, tasks: 2, last_ms: at_ms },
    { host: "c.example.com", port: 8443, requests: 1, tasks: 1, last_ms: at_ms },
  ]);
  assertEquals((await place.json(["egress", "suggest", "--since", "2026-01-02"])).refused, []);
  const path = `${place.home}/.taskd/egress.yaml`;
  const allowed = { ok: true, target: "b.example.com:443", path, changed: true };
  assertEquals(await place.json(["egress", "allow", "B.example.com"]), allowed);
  assertEquals(await place.json(["egress", "allow", "b.example.com:443"]), { ...allowed, changed: false });
  assertStringIncludes(await Deno.readTextFile(path), "# Ours.");
  assertEquals(Deno.statSync(path).mode! & 0o777, 0o600);
  const { stdout } = await place.taskd("egress", "suggest");
  assertStringIncludes(stdout, "c.example.com:8443");
  assertEquals(stdout.includes("b.example.com"), false);
});

Deno.test("egress allow refuses what may not be listed, and says how to write a host", async () => {
  await using place = await makeBrokerPlace();
  await configure(place, EMBEDDED);
  for (const host of ["10.0.0.1:443", "https://example.com", "localhost", "example.com:0"]) {
    const { code, stderr } = await place.taskd("egress", "allow", host);
    assertEquals([host, code === 0, stderr.startsWith("taskd: Cannot ")], [host, false, true]);
  }
});

Deno.test("egress grant asks the broker for a host, a time and a number of uses", async () => {
  await using host = await makeBrokerHost();
  host.engine.script = async (task, engine) => {
    await task.move({ from: "admission", to: "staging" });
    engine.spend(task.id, SPEND);
  };
  const { id } = await host.engine.submit({ repo: "https://example.com/ada/shop", instruction: "Fix" });
  await Promise.all(host.engine.running);
  const { stdout } = await host.taskd(
    "egress",
    "grant",
    id.slice(0, 8),
    "api.example.com",
    "--for",
    "10m",
    "--uses",
    "3",
  );
  assertEquals(stdout, `Task ${id} may reach api.example.com:443 for 10m, for 3 connections at most\n`);
  await host.json(["egress", "grant", id, "api.example.com:8443"]);
  assertEquals(host.engine.granted, [
    [id, "api.example.com:443", 600_000, 3],
    [id, "api.example.com:8443", 3_600_000, undefined],
  ]);
});
