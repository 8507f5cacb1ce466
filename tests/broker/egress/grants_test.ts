import { assert, assertEquals } from "@std/assert";
import { VirtualClock } from "../../support/clock.ts";
import { recorder } from "../../attacks/raw_connections.ts";
import { Bench, connectHead, credentials, Server } from "./_harness.ts";

const OK = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

Deno.test("a granted host is reached as often as was said, by tunnels and by plain requests", async () => {
  await using server = recorder(OK);
  await using bench = await Bench.start({ list: {}, ports: { 80: server.port, 8443: server.port } });
  const task = bench.admit();
  assertEquals(await bench.connect("api.example.com:8443", task), "403 not_listed");
  task.grant({ target: { host: "api.example.com", port: 8443 }, for_ms: 60_000, uses: 2 });
  assertEquals(await bench.connect("api.example.com:8443", task), "200");
  assertEquals(await bench.connect("other.example.com:8443", task), "403 not_listed");
  assertEquals(await bench.connect("api.example.com:8443", bench.admit("task2")), "403 not_listed");
  assertEquals(await bench.connect("api.example.com:8443", task), "200");
  assertEquals(await bench.connect("api.example.com:8443", task), "403 not_listed");
  task.grant({ target: { host: "api.example.com", port: 80 }, for_ms: 60_000, uses: 1 });
  const plain = `GET http://api.example.com/ HTTP/1.1\r\nHost: api.example.com\r\n${credentials(task)}\r\n\r\n`;
  assertEquals([(await bench.ask(plain)).status, (await bench.ask(plain)).status], [200, 403]);
  assertEquals(task.grantUses(), [2, 1]);
  const granted = bench.decisions.filter(({ detail }) => detail === "granted");
  assertEquals(granted.map(({ host, verdict, reason }) => [host, verdict, reason].join(" ")), [
    "api.example.com allowed allowed",
    "api.example.com allowed allowed",
    "api.example.com allowed allowed",
  ]);
  assert((await bench.log()).some((line) => line.endsWith(" reason=allowed;granted")));
});

Deno.test("a tunnel to port 80 counts once, however many requests go through it", async () => {
  await using server = recorder(OK);
  await using bench = await Bench.start({ list: {}, ports: { 80: server.port } });
  const task = bench.admit();
  task.grant({ target: { host: "api.example.com", port: 80 }, for_ms: 60_000, uses: 1 });
  const client = await bench.client();
  assertEquals(await client.tunnel("api.example.com:80", task), 200);
  for (let i = 0; i < 3; i++) {
    await client.send("GET / HTTP/1.1\r\nHost: api.example.com\r\n\r\n");
    assertEquals((await client.response()).status, 200);
  }
  assertEquals(task.grantUses(), [1]);
});

Deno.test("a granted address is checked as any: what is not public stays out of reach", async () => {
  await using bench = await Bench.start({ list: {}, names: { "inward.example": ["10.0.0.1"] } });
  const task = bench.admit();
  task.grant({ target: { host: "inward.example", port: 443 }, for_ms: 60_000 });
  assertEquals(await bench.connect("inward.example:443", task), "403 address_refused");
});

Deno.test("when the time of a grant is over its open tunnels are closed", async () => {
  const clock = new VirtualClock();
  await using server = Server.echo();
  await using bench = await Bench.start({ clock, list: {}, ports: { 8443: server.port } });
  const task = bench.admit();
  task.grant({ target: { host: "api.example.com", port: 8443 }, for_ms: 60_000 });
  const client = await bench.client();
  await client.send(connectHead("api.example.com:8443", task));
  assertEquals((await client.response()).status, 200);
  clock.advance(60_000);
  assertEquals(await client.rest(), "");
  assertEquals(await bench.connect("api.example.com:8443", task), "403 not_listed");
});
