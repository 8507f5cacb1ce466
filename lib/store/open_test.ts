import { assertEquals, assertThrows } from "@std/assert";
import { fails, withDirectory } from "../../tests/support/stores.ts";
import { TaskdError } from "../errors.ts";
import { openStore, storeDirectory } from "./open.ts";

Deno.test("a location is a path or a file URL of this machine", () => {
  assertEquals(storeDirectory("/srv/store"), "/srv/store");
  assertEquals(storeDirectory("store"), `${Deno.cwd()}/store`);
  assertEquals(storeDirectory("file:///srv/a%20b"), "/srv/a b");
  assertEquals(storeDirectory("FILE:///srv/x"), "/srv/x");
  for (
    const [location, code] of [["", "usage"], ["http://host/x", "not_a_store"], ["ftp://x", "not_a_store"]] as const
  ) {
    assertEquals(assertThrows(() => storeDirectory(location), TaskdError).code, code, location);
  }
});

Deno.test("a store is made where there is nothing, and found again", () =>
  withDirectory(async (directory) => {
    {
      using store = await openStore(`${directory}/deep/store`);
      await store.create("app");
    }
    using store = await openStore(`file://${directory}/deep/store`);
    assertEquals(await store.databases(), [{ db: "app", branches: 1 }]);
    Deno.writeTextFileSync(`${directory}/file`, "");
    await fails(["not_a_store", "denied", "not_found"], openStore(`${directory}/file`));
  }));
