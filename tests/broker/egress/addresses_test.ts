import { assertEquals } from "@std/assert";
import { INWARD_NAMES } from "../../attacks/inputs/egress.ts";
import { Bench, Server } from "./_harness.ts";

Deno.test("a name that resolves to an inward address, or to the host's own, is never dialled", async () => {
  const dialled: string[] = [];
  await using bench = await Bench.start({
    list: Object.fromEntries(Object.keys(INWARD_NAMES).map((name) => [name, [80, 443]])),
    names: INWARD_NAMES,
    own_addresses: () => ["8.8.4.4", "51.15.3.9/20"],
    connect: (address) => {
      dialled.push(address);
      return Promise.reject(new Error("not in this test"));
    },
  });
  const task = bench.admit();
  for (const name of Object.keys(INWARD_NAMES)) {
    assertEquals([name, await bench.connect(`${name}:443`, task)], [name, "403 address_refused"]);
    assertEquals([name, await bench.connect(`${name}:80`, task)], [name, "403 address_refused"]);
  }
  assertEquals(dialled, []);
  assertEquals(bench.decisions.find(({ host }) => host === "metadata.example")?.detail, "metadata");
});

Deno.test("the checked address is what is dialled: a name that changes afterwards gains nothing", async () => {
  await using server = Server.echo();
  const dialled: string[] = [];
  let answers = 0;
  await using bench = await Bench.start({
    list: { "rebind.example": [443] },
    names: { "rebind.example": () => answers++ === 0 ? ["8.8.8.8"] : ["169.254.169.254"] },
    connect: (address) => {
      dialled.push(address);
      return Deno.connect({ hostname: "127.0.0.1", port: server.port });
    },
  });
  const task = bench.admit();
  assertEquals(await bench.connect("rebind.example:443", task), "200");
  assertEquals(bench.lookups, ["rebind.example"]);
  assertEquals(dialled, ["8.8.8.8"]);
  assertEquals(await bench.connect("rebind.example:443", task), "403 address_refused");
  assertEquals(dialled, ["8.8.8.8"]);
});

Deno.test("every interface of the host counts as its own by default", async () => {
  const own = Deno.networkInterfaces().map(({ address }) => address).filter((address) => address !== "127.0.0.1");
  await using bench = await Bench.start({ list: { "self.example": [443] }, names: { "self.example": own } });
  const task = bench.admit();
  const verdict = own.length === 0 ? "502 name_not_found" : "403 address_refused";
  assertEquals(await bench.connect("self.example:443", task), verdict);
});

Deno.test("an address is tried after another that does not take the connection", async () => {
  await using server = Server.echo();
  await using bench = await Bench.start({
    list: { "two.example": [443] },
    names: { "two.example": ["8.8.8.8", "9.9.9.9"] },
    connect: (address) =>
      address === "9.9.9.9"
        ? Deno.connect({ hostname: "127.0.0.1", port: server.port })
        : Promise.reject(new Deno.errors.ConnectionRefused()),
  });
  assertEquals(await bench.connect("two.example:443", bench.admit()), "200");
});

Deno.test("a name without an address and a host without a listener get different reasons", async () => {
  const closed = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = closed.addr;
  closed.close();
  await using bench = await Bench.start({
    list: { "nowhere.example": [443], "closed.example": [443] },
    names: { "nowhere.example": [] },
    ports: { 443: port },
  });
  const task = bench.admit();
  assertEquals(await bench.connect("nowhere.example:443", task), "502 name_not_found");
  assertEquals(await bench.connect("closed.example:443", task), "502 connect_failed");
});
