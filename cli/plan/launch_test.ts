import {
  assertEquals,
  assertMatch,
  assertNotEquals,
  assertRejects,
  assertStringIncludes,
  assertThrows,
} from "@std/assert";
import { TaskdError } from "../../lib/errors.ts";
import type { FlagValue, Plan } from "./plan.ts";
import { findCommand } from "../table/commands.ts";
import { planCall } from "./launch.ts";
import { storeDirectory } from "./locations.ts";

const context = {
  home: "/home/ada",
  entry: "file:///taskd/cli/main.ts",
  absolute: (path: string) => path.startsWith("/") ? path : `/here/${path}`,
  env: (name: string) => name.startsWith("AWS_ACCESS") ? "key" : undefined,
};

interface Given {
  store?: string;
  socket?: string;
  daemon?: string;
  flags?: Record<string, FlagValue>;
  positionals?: Record<string, string>;
}

function plan(name: string, given: Given = {}): Promise<Plan> {
  const flags = { store: given.store ?? "~/.taskd/store", socket: given.socket ?? null, ...given.flags };
  const call = { spec: findCommand(name)!, positionals: given.positionals ?? {}, flags };
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
      "https://x/y",
      "gs://bucket/prefix",
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
  const refused = assertThrows(() => storeDirectory("s4://me:secret@bucket", context), TaskdError);
  assertEquals(refused.message, 'Cannot use "s4://...@bucket" as a store: there are no s4:// stores');
});

Deno.test("planCall() gives a store in a bucket a workspace of its own, by location and endpoint", async () => {
  const at_aws = await plan("fork", { store: "s3://bucket/a/" });
  assertEquals(at_aws.store, "s3://bucket/a");
  assertMatch(at_aws.workspace, /^\/home\/ada\/\.taskd\/workspaces\/[0-9a-f]{16}$/);
  assertEquals(at_aws.socket, `${at_aws.workspace}/taskd.sock`);
  assertEquals(at_aws.s3?.options, {});
  const flags = { "s3-endpoint": "HTTP://Minio:9000/", "s3-region": "eu-west-1", "s3-path-style": false };
  const elsewhere = await plan("fork", { store: "s3://bucket/a", flags });
  assertEquals(elsewhere.s3?.options, { endpoint: "http://minio:9000", region: "eu-west-1", path_style: false });
  assertEquals(elsewhere.s3?.access.net, ["bucket.minio:9000"]);
  assertNotEquals(elsewhere.workspace, at_aws.workspace);
  const named = await plan("serve", { store: "s3://bucket", flags: { workspace: "/w" } });
  assertEquals([named.workspace, named.socket], ["/w", "/w/taskd.sock"]);
  assertEquals((await plan("fork")).s3, undefined);
});

Deno.test("planCall() refuses what reaches no bucket, and repeats no password", async () => {
  const table: [Given, string][] = [
    [{ store: "s3:/x" }, "Cannot open s3:/x: it is no bucket and prefix"],
    [{ store: "s3://me:secret@bucket" }, "it is no bucket and prefix"],
    [{ store: "s3://bucket", flags: { "s3-endpoint": "http://me:secret@minio" } }, "it must not hold credentials"],
    [{ store: "s3://bucket", flags: { "s3-endpoint": "secret" } }, "it is no http or https URL"],
    [{ store: "s3://bucket", flags: { "s3-endpoint": "http://a..b:9000" } }, "its host is none"],
    [{ store: "s3://bucket", flags: { "s3-endpoint": "http://*:9000" } }, "its host is none"],
    [{ store: "s3://bucket", flags: { "s3-endpoint": "http://x?secret" } }, "it must end with its path"],
    [{ store: "s3://bucket", flags: { "s3-region": "a.evil.example/" } }, "as a region of S3"],
    [{ store: "/s", flags: { workspace: "/w" } }, "Cannot use /w as a workspace: /s is its own"],
  ];
  for (const [given, words] of table) {
    const error = await assertRejects(() => plan("fork", given), TaskdError, words);
    assertEquals([error.code, error.message.includes("secret")], ["usage", false]);
  }
});

Deno.test("planCall() places both ends of copy-store, and asks for no store beside them", async () => {
  const up = await plan("copy-store", { positionals: { source: "~/s", target: "s3://b/t/" }, store: "nonsense://" });
  assertEquals(up.positionals, { source: "/home/ada/s", target: "s3://b/t" });
  assertEquals([up.store, up.workspace, up.route], ["", "", "none"]);
  const across = await plan("copy-store", { positionals: { source: "s3://a", target: "s3://b" } });
  assertEquals(across.s3?.access.net, ["a.s3.us-east-1.amazonaws.com:443", "b.s3.us-east-1.amazonaws.com:443"]);
  assertEquals((await plan("copy-store", { positionals: { source: "/a", target: "/b" } })).s3, undefined);
});

Deno.test("planCall() places the copy that repair takes from, with the permissions to reach it", async () => {
  const here = await plan("repair", { flags: { from: "~/copy" } });
  assertEquals([here.flags.from, here.s3], ["/home/ada/copy", undefined]);
  const flags = { from: "s3://b/t/", "s3-region": "eu-west-1" };
  const there = await plan("repair", { flags });
  assertEquals([there.flags.from, there.store], ["s3://b/t", "/home/ada/.taskd/store"]);
  assertEquals(there.s3?.access.net, ["b.s3.eu-west-1.amazonaws.com:443"]);
  const both = await plan("repair", { flags, store: "s3://a" });
  assertEquals(both.s3?.access.net, ["a.s3.eu-west-1.amazonaws.com:443", "b.s3.eu-west-1.amazonaws.com:443"]);
});

Deno.test("planCall() refuses a repository on this machine that is not there, before it is a task", async () => {
  for (const name of ["submit", "queue add"]) {
    const error = await assertRejects(() => plan(name, { positionals: { repo: "/none/nope" } }), TaskdError);
    assertEquals([error.code, error.message], ["not_found", `Cannot ${name}: there is no /none/nope`]);
  }
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
