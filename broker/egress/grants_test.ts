import { assertEquals, assertThrows } from "@std/assert";
import { nextTurn } from "../../lib/clock.ts";
import { TaskdError } from "../../lib/errors.ts";
import { VirtualClock } from "../../tests/support/clock.ts";
import { GrantedHosts, MAX_GRANTS } from "./grants.ts";

const TARGET = { host: "api.example.com", port: 443 };

class Connection {
  closed = false;
  close(): void {
    this.closed = true;
  }
}

Deno.test("a grant opens its host and port alone, as often as it says", () => {
  const grants = new GrantedHosts(new VirtualClock());
  grants.add({ target: TARGET, for_ms: 1_000, uses: 2 });
  const take = (host: string, port: number) => grants.take({ host, port }, new Connection());
  assertEquals([take("api.example.com", 80), take("example.com", 443), take("x.api.example.com", 443)], [
    false,
    false,
    false,
  ]);
  assertEquals([1, 2, 3].map(() => take("api.example.com", 443)), [true, true, false]);
  assertEquals(grants.uses(), [2]);
  grants.end();
});

Deno.test("a grant without a number is used as often as one likes, after one that has a number", () => {
  const grants = new GrantedHosts(new VirtualClock());
  grants.add({ target: TARGET, for_ms: 1_000, uses: 1 });
  grants.add({ target: TARGET, for_ms: 1_000 });
  for (let i = 0; i < 5; i++) assertEquals(grants.take(TARGET, new Connection()), true);
  assertEquals(grants.uses(), [1, 4]);
  grants.end();
});

Deno.test("when its time is over a grant opens nothing, and what it let through is closed", async () => {
  const clock = new VirtualClock();
  const grants = new GrantedHosts(clock);
  grants.add({ target: TARGET, for_ms: 1_000 });
  const [open, gone] = [new Connection(), new Connection()];
  assertEquals([grants.take(TARGET, open), grants.take(TARGET, gone)], [true, true]);
  grants.release(gone);
  clock.advance(999);
  await nextTurn();
  assertEquals([grants.take(TARGET, new Connection()), open.closed], [true, false]);
  clock.advance(1);
  await nextTurn();
  assertEquals([grants.take(TARGET, new Connection()), open.closed, gone.closed], [false, true, false]);
  grants.end();
});

Deno.test("a task has a bounded number of grants, and none once it has ended", () => {
  const grants = new GrantedHosts(new VirtualClock());
  for (let i = 0; i < MAX_GRANTS; i++) grants.add({ target: TARGET, for_ms: 1_000 });
  assertThrows(() => grants.add({ target: TARGET, for_ms: 1_000 }), TaskdError, "has had 64 grants");
  grants.end();
  assertThrows(() => grants.add({ target: TARGET, for_ms: 1_000 }), TaskdError, "no way out any more");
  assertEquals(grants.take(TARGET, new Connection()), false);
});
