import { assertEquals, assertRejects } from "@std/assert";
import { systemClock } from "../../lib/clock.ts";
import { VirtualClock } from "../../tests/support/clock.ts";
import { Dialer, type DialerOptions } from "./dialer.ts";
import { Refused } from "./reasons.ts";

const never = () => new AbortController().signal;

async function reasonOf(promise: Promise<unknown>): Promise<string> {
  const { reason, detail } = await assertRejects(() => promise, Refused);
  return detail === undefined ? reason : `${reason}: ${detail}`;
}

function dialer(options: Partial<DialerOptions> = {}): Dialer {
  return new Dialer({ clock: new VirtualClock(), own_addresses: () => [], ...options });
}

Deno.test("addresses() gives what was found only when all of it is public", async () => {
  const found: Record<string, string[]> = {
    "good.example": ["8.8.8.8", "2606:4700::1"],
    "bad.example": ["8.8.8.8", "10.0.0.1"],
    "none.example": [],
  };
  const on = dialer({ resolve: (host) => Promise.resolve(found[host]!) });
  assertEquals(await on.addresses("good.example", never()), ["8.8.8.8", "2606:4700::1"]);
  assertEquals(await reasonOf(on.addresses("bad.example", never())), "address_refused: private");
  assertEquals(await reasonOf(on.addresses("none.example", never())), "name_not_found");
});

Deno.test("addresses() takes a failed lookup for a name without addresses", async () => {
  const on = dialer({ resolve: () => Promise.reject(new Error("SERVFAIL")) });
  assertEquals(await reasonOf(on.addresses("a.example", never())), "name_not_found");
});

Deno.test("an address that the operator allows is allowed in every spelling, and its neighbour is not", async () => {
  let answer = ["10.0.0.5"];
  const on = dialer({ allow_addresses: ["10.0.0.5", "fd00::1"], resolve: () => Promise.resolve(answer) });
  assertEquals(await on.addresses("mirror.example", never()), ["10.0.0.5"]);
  answer = ["FD00:0::0.0.0.1"];
  assertEquals(await on.addresses("mirror.example", never()), answer);
  answer = ["10.0.0.6"];
  assertEquals(await reasonOf(on.addresses("mirror.example", never())), "address_refused: private");
  answer = ["not an address"];
  assertEquals(await reasonOf(on.addresses("mirror.example", never())), "address_refused: invalid");
});

Deno.test("the host's own addresses are read again, since networks come and go", async () => {
  const clock = new VirtualClock();
  let own: string[] = [];
  const on = dialer({ clock, own_addresses: () => own, resolve: () => Promise.resolve(["8.8.8.8"]) });
  assertEquals(await on.addresses("a.example", never()), ["8.8.8.8"]);
  own = ["8.8.8.8"];
  clock.advance(5_000);
  assertEquals(await reasonOf(on.addresses("a.example", never())), "address_refused: own");
});

Deno.test("dial() connects to the given address, and returns which it was", async () => {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const on = new Dialer({ clock: systemClock });
  const { stream, address } = await on.dial(["127.0.0.1"], listener.addr.port, never);
  using _accepted = await listener.accept();
  stream.close();
  assertEquals(address, "127.0.0.1");
});

Deno.test("dial() distinguishes a refused connection from one that did not come in time", async () => {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = listener.addr;
  listener.close();
  const on = new Dialer({ clock: systemClock });
  assertEquals(await reasonOf(on.dial(["127.0.0.1"], port, never)), "connect_failed: refused");
  const late = dialer({
    connect: (_address, _port, signal) =>
      new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason))),
  });
  const abort = new AbortController();
  const dialling = late.dial(["8.8.8.8"], 443, () => abort.signal);
  abort.abort();
  assertEquals(await reasonOf(dialling), "connect_timeout");
});

Deno.test("dial() tries a few addresses, not all that a zone can hold", async () => {
  const tried: string[] = [];
  const on = dialer({
    connect: (address) => {
      tried.push(address);
      return Promise.reject(new Deno.errors.ConnectionRefused());
    },
  });
  await reasonOf(on.dial(Array.from({ length: 100 }, (_, i) => `8.8.8.${i}`), 443, never));
  assertEquals(tried.length, 4);
});
