import { assertEquals, assertRejects, assertStringIncludes, assertThrows } from "@std/assert";
import { TaskdError } from "../lib/errors.ts";
import type { Plan } from "./command.ts";
import { findCommand } from "./commands.ts";
import { absolutePath, parentOf, planCall, storeDirectory } from "./launch.ts";

const context = { home: "/home/ada", absolute: (path: string) => path.startsWith("/") ? path : `/here/${path}` };

function plan(name: string, given: { store?: string; socket?: string; daemon?: string } = {}): Promise<Plan> {
  const flags = { store: given.store ?? "~/.taskd/store", socket: given.socket ?? null };
  const call = { spec: findCommand(name)!, positionals: {}, flags };
  return planCall(call, { ...context, daemonSocket: () => Promise.resolve(given.daemon) });
}

Deno.test("storeDirectory() reads every form of location", () => {
  const table: [string, string][] = [
    ["~/.taskd/store", "/home/ada/.taskd/store"],
    ["~", "/home/ada/"],
    ["/srv/s", "/srv/s"],
    ["s", "/here/s"],
    ["~x", "/here/~x"],
    ["file:///srv/a%20b", "/srv/a b"],
  ];
  for (const [location, directory] of table) assertEquals(storeDirectory(location, context), directory);
});

Deno.test("storeDirectory() refuses what is not a directory's name", () => {
  for (
    const location of [
      "",
      "s3://bucket/prefix",
      "https://x/y",
      "file://host/path",
      "file:///x?y",
      "file:x",
      "file:///%00",
      "file:///%ff",
      "file:///%",
    ]
  ) {
    const error = assertThrows(() => storeDirectory(location, context), TaskdError);
    assertEquals(error.code, "usage");
  }
  assertThrows(() => storeDirectory("~/x", { ...context, home: undefined }), TaskdError, "HOME is not set");
});

Deno.test("planCall() sends commands of branches to the daemon when one is alive", async () => {
  const at_rest = await plan("fork");
  assertEquals([at_rest.route, at_rest.socket], ["store", "/home/ada/.taskd/store/taskd.sock"]);
  const live = await plan("fork", { daemon: "/run/d.sock" });
  assertEquals([live.route, live.socket], ["socket", "/run/d.sock"]);
  const named = await plan("fork", { socket: "/run/e.sock", daemon: "/run/d.sock" });
  assertEquals([named.route, named.socket], ["socket", "/run/e.sock"]);
});

Deno.test("planCall() keeps the work of the store with the store, and of the daemon with the daemon", async () => {
  assertEquals((await plan("verify", { daemon: "/run/d.sock" })).route, "store");
  assertEquals((await plan("session open")).route, "socket");
  assertEquals((await plan("session open", { daemon: "/run/d.sock" })).socket, "/run/d.sock");
  assertEquals((await plan("serve", { daemon: "/run/d.sock" })).socket, "/home/ada/.taskd/store/taskd.sock");
  assertEquals((await plan("version")).route, "none");
});

Deno.test("planCall() refuses a socket path that the system would not take, only where one is used", async () => {
  const store = `/${"s".repeat(110)}`;
  assertEquals((await plan("fork", { store })).route, "store");
  for (const name of ["serve", "session status"]) {
    const error = await assertRejects(() => plan(name, { store }), TaskdError, "bytes");
    assertStringIncludes(error.hint!, "-socket");
  }
});

Deno.test("absolutePath() follows symbolic links as far as the path exists", async () => {
  const base = await Deno.realPath(await Deno.makeTempDir());
  try {
    await Deno.mkdir(`${base}/real`);
    await Deno.symlink(`${base}/real`, `${base}/link`);
    assertEquals(absolutePath(`${base}/link/new/store`), `${base}/real/new/store`);
    assertEquals(absolutePath(`${base}/link/../link`), `${base}/real`);
    assertEquals(absolutePath("/nowhere/./at//all/../x/"), "/nowhere/at/x");
    assertEquals(absolutePath("/../.."), "/");
    assertEquals(absolutePath("."), Deno.cwd());
    assertEquals(parentOf("/a"), "/");
    assertEquals(parentOf("/a/b"), "/a");
  } finally {
    await Deno.remove(base, { recursive: true });
  }
});
