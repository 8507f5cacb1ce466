import { assert, assertEquals } from "@std/assert";
import { connectionLimits, openFileLimit } from "./descriptors.ts";

const USES = {
  socket: { most: 1_024, descriptors: 1, share: 0.25 },
  http: { most: 2_048, descriptors: 4, share: 0.75 },
};

Deno.test("connections take at most what the limit leaves beside a daemon's own work", () => {
  const most = { socket: 1_024, http: 2_048 };
  assertEquals(connectionLimits(undefined, USES), most);
  assertEquals(connectionLimits(1_000_000, USES), most);
  assertEquals(connectionLimits(256, USES), { socket: 32, http: 24 });
  for (const limit of [16, 64, 256, 1_024, 1_200, 4_096, 20_000]) {
    const { socket, http } = connectionLimits(limit, USES);
    assert(socket >= 1 && http >= 1);
    assert(socket + 4 * http <= Math.max(5, limit - Math.min(4_096, limit / 2)), `${limit}`);
  }
});

Deno.test("openFileLimit() is what the shell says", () => {
  assert(openFileLimit()! > 16);
});
