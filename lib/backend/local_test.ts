import { assert, assertEquals, assertRejects } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import { MIN_XFS_MB, mount, mountReadOnlyView, whyNotMountable, withMount } from "../../tests/support/mounts.ts";
import { BackendError } from "./backend.ts";
import { backendConformance } from "../../tests/support/backend_conformance.ts";
import { LocalBackend } from "./local.ts";

const NO_XFS = await whyNotMountable("xfs");
const NO_EXT4 = await whyNotMountable("ext4");
const NO_TMPFS = await whyNotMountable("tmpfs");
const MIB = 1024 * 1024;

backendConformance("local", async () => {
  const directory = await Deno.makeTempDir();
  return {
    backend: await LocalBackend.open(`${directory}/store`),
    [Symbol.asyncDispose]: () => Deno.remove(directory, { recursive: true }),
  };
});

if (NO_XFS === "") {
  backendConformance("local, cloning", async () => {
    const mounted = await mount("xfs", MIN_XFS_MB);
    const backend = await LocalBackend.open(mounted.directory);
    assert(backend.clone !== undefined);
    return { backend, [Symbol.asyncDispose]: () => mounted[Symbol.asyncDispose]() };
  });
} else {
  Deno.test({ name: `local, cloning: the conformance suite${NO_XFS}`, ignore: true, fn: () => {} });
}

const bytes = (size: number, fill = 7) => new Uint8Array(size).fill(fill);
const text = (value: string) => new TextEncoder().encode(value);

async function code(action: () => Promise<unknown>): Promise<string> {
  return (await assertRejects(action, BackendError)).code;
}

async function keys(backend: LocalBackend): Promise<string[]> {
  const found: string[] = [];
  for await (const { key } of backend.list("")) found.push(key);
  return found;
}

function temporaries(directory: string): string[] {
  return Array.from(Deno.readDirSync(`${directory}/.taskd/tmp`), ({ name }) => name);
}

async function inDirectory(fn: (directory: string) => Promise<void>): Promise<void> {
  const directory = await Deno.makeTempDir();
  try {
    await fn(directory);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
}

function freeBytes(directory: string): Promise<number> {
  const df = new Deno.Command("df", { args: ["--output=avail", "-B1", directory] });
  return df.output().then(({ stdout }) => Number(new TextDecoder().decode(stdout).split("\n")[1]));
}

Deno.test("directories are 0700, objects 0600, and no temporary file stays", () =>
  inDirectory(async (directory) => {
    const store = `${directory}/a/store`;
    const backend = await LocalBackend.open(store);
    await backend.create("data/x", bytes(10));
    await backend.copy("data/x", "data/y");
    for (const [path, mode] of [["", 0o700], ["/data", 0o700], ["/data/x", 0o600], ["/data/y", 0o600]] as const) {
      assertEquals((await Deno.stat(store + path)).mode! & 0o777, mode, path);
    }
    assertEquals(temporaries(store), []);
    assertEquals(backend.url, `file://${store}`);
  }));

Deno.test("the store survives that its directories, its locks among them, are removed behind its back", () =>
  inDirectory(async (directory) => {
    const backend = await LocalBackend.open(directory);
    await backend.put("a/b/c", text("one"));
    for await (const { name } of Deno.readDir(directory)) {
      await Deno.remove(`${directory}/${name}`, { recursive: true });
    }
    await backend.put("a/b/c", text("two"));
    assertEquals((await backend.get("a/b/c")).bytes, text("two"));
  }));

Deno.test("a delete leaves no empty directory", () =>
  inDirectory(async (directory) => {
    const backend = await LocalBackend.open(directory);
    await backend.put("a/b/c", text("one"));
    await backend.put("a/d", text("two"));
    await backend.delete("a/b/c");
    assertEquals(Array.from(Deno.readDirSync(`${directory}/a`), ({ name }) => name), ["d"]);
    await backend.delete("a/d");
    assertEquals(Array.from(Deno.readDirSync(directory), ({ name }) => name), [".taskd"]);
  }));

Deno.test("list() is sorted by key and skips files that are no objects", () =>
  inDirectory(async (directory) => {
    const backend = await LocalBackend.open(directory);
    for (const key of ["a/b/c", "a/b.c", "a/b-c", "a/A"]) await backend.put(key, text(key));
    await Deno.writeTextFile(`${directory}/a/not a key`, "");
    assertEquals(await keys(backend), ["a/A", "a/b-c", "a/b.c", "a/b/c"]);
  }));

Deno.test("nothing is read, written, deleted or listed through a symbolic link", () =>
  inDirectory(async (directory) => {
    await Deno.mkdir(`${directory}/outside`);
    await Deno.writeTextFile(`${directory}/outside/secret`, "secret");
    const backend = await LocalBackend.open(`${directory}/store`);
    await backend.put("dir/k", text("k"));
    await Deno.symlink(`${directory}/outside`, `${directory}/store/dir/link`);
    await Deno.symlink(`${directory}/outside/secret`, `${directory}/store/dir/object`);
    for (const key of ["dir/link/secret", "dir/object"]) {
      assertEquals(await code(() => backend.get(key)), "denied");
      assertEquals(await code(() => backend.getStream(key)), "denied");
      assertEquals(await code(() => backend.head(key)), "denied");
      assertEquals(await code(() => backend.put(key, text("x"))), "denied");
      assertEquals(await code(() => backend.replace(key, text("x"), "etag")), "denied");
      assertEquals(await code(() => backend.delete(key)), "denied");
      assertEquals(await code(() => backend.copy(key, "copy")), "denied");
      assertEquals(await code(() => backend.copy("dir/k", key)), "denied");
    }
    assertEquals(await code(() => backend.create("dir/link/new", text("x"))), "denied");
    assertEquals(await code(() => backend.create("dir/object", text("x"))), "denied");
    const listed = await Array.fromAsync(backend.list(""));
    assertEquals(listed.map(({ key, size }) => [key, size]), [["dir/k", 1], ["dir/link", 0], ["dir/object", 0]]);
    assertEquals(Array.from(Deno.readDirSync(`${directory}/outside`), ({ name }) => name), ["secret"]);
    assertEquals(await Deno.readTextFile(`${directory}/outside/secret`), "secret");
  }));

Deno.test("a FIFO in place of an object is denied, not waited for", () =>
  inDirectory(async (directory) => {
    const backend = await LocalBackend.open(directory);
    await new Deno.Command("mkfifo", { args: [`${directory}/pipe`] }).output();
    assertEquals(await code(() => backend.get("pipe")), "denied");
    assertEquals(await Array.fromAsync(backend.list("")), [{ key: "pipe", size: 0 }]);
  }));

Deno.test("a directory in place of an object is denied and named, by reads as by writes", () =>
  inDirectory(async (directory) => {
    const backend = await LocalBackend.open(directory);
    await Deno.mkdir(`${directory}/gc/list.json`, { recursive: true });
    const calls: (() => Promise<unknown>)[] = [
      () => backend.get("gc/list.json"),
      () => backend.getRange("gc/list.json", 0, 1),
      () => backend.getStream("gc/list.json"),
      () => backend.head("gc/list.json"),
      () => backend.create("gc/list.json", text("x")),
      () => backend.replace("gc/list.json", text("x"), "etag"),
      () => backend.put("gc/list.json", text("x")),
      () => backend.copy("gc/list.json", "copy"),
      () => backend.delete("gc/list.json"),
    ];
    for (const call of calls) {
      const error = await assertRejects(call, BackendError, `${directory}/gc/list.json is a directory`, `${call}`);
      assertEquals([error.code, error.hint], ["denied", "Move it out of the store"], `${call}`);
    }
    assertEquals(temporaries(directory), []);
  }));

Deno.test("a file in place of a directory of keys is denied and named by a listing", () =>
  inDirectory(async (directory) => {
    const backend = await LocalBackend.open(directory);
    await Deno.writeTextFile(`${directory}/refs`, "");
    for (const prefix of ["refs/", "refs/app/", "refs/app/m"]) {
      const error = await assertRejects(() => Array.fromAsync(backend.list(prefix)), BackendError, prefix);
      assertEquals([error.code, error.hint], ["denied", "Move it out of the store"]);
    }
  }));

Deno.test("a key below an object, and an object where keys are, are denied", () =>
  inDirectory(async (directory) => {
    const backend = await LocalBackend.open(directory);
    await backend.put("a/b", text("x"));
    assertEquals(await code(() => backend.put("a/b/c", text("x"))), "denied");
    assertEquals(await code(() => backend.put("a", text("x"))), "denied");
    assertEquals(temporaries(directory), []);
  }));

Deno.test("open() refuses a file and makes a missing directory", () =>
  inDirectory(async (directory) => {
    await Deno.writeTextFile(`${directory}/file`, "");
    assertEquals(await code(() => LocalBackend.open(`${directory}/file`)), "denied");
    assertEquals(await code(() => LocalBackend.open(`${directory}/file/below`)), "denied");
    const backend = await LocalBackend.open(`${directory}/a/b/c`);
    assertEquals(await keys(backend), []);
  }));

Deno.test("open() sweeps what dead writers left over an hour ago, and nothing of a living one", () =>
  inDirectory(async (directory) => {
    const backend = await LocalBackend.open(directory);
    await Deno.writeTextFile(`${directory}/.taskd/tmp/dead`, "half an obj");
    const started = Promise.withResolvers<void>();
    const go = Promise.withResolvers<void>();
    async function* slow() {
      yield bytes(1000);
      started.resolve();
      await go.promise;
      yield bytes(1000);
    }
    const writing = backend.put("slow", slow());
    await started.promise;
    const later = (hours: number) => ({
      now: () => Date.now() + hours * 3_600_000,
      monotonic: () => 0,
      sleep: () => Promise.resolve(),
    });
    await LocalBackend.open(directory, { clock: later(0.9) });
    assertEquals(temporaries(directory).length, 2);
    await LocalBackend.open(directory, { clock: later(2) });
    assertEquals(temporaries(directory).length, 1);
    go.resolve();
    await writing;
    assertEquals((await backend.head("slow")).size, 2000);
  }));

for (const kind of ["ext4", "tmpfs"] as const) {
  const why = kind === "ext4" ? NO_EXT4 : NO_TMPFS;
  Deno.test({
    name: `a full disk (${kind}) is no_space, keeps what was there and leaves no half object${why}`,
    ignore: why !== "",
    fn: () =>
      withMount(kind, 8, async (disk) => {
        const directory = `${disk}/store`;
        const backend = await LocalBackend.open(directory);
        const etag = await backend.create("refs/db/main.json", text("old"));
        let count = 0;
        const full = await code(async () => {
          for (;; count++) await backend.create(`data/${count}`, bytes(700_000));
        });
        assertEquals(full, "no_space");
        const filler = Deno.openSync(`${disk}/filler`, { write: true, createNew: true });
        try {
          for (;;) filler.writeSync(bytes(1024));
        } catch {
          filler.close();
        }
        async function* streamed() {
          for (let i = 0; i < 4; i++) yield await Promise.resolve(bytes(MIB));
        }
        assertEquals(await code(() => backend.put("data/0", streamed())), "no_space");
        assertEquals(await code(() => backend.replace("refs/db/main.json", bytes(100_000), etag)), "no_space");
        assertEquals(await code(() => backend.copy("data/0", "data/copy")), "no_space");
        assertEquals(temporaries(directory), []);
        assertEquals((await backend.get("refs/db/main.json")).bytes, text("old"));
        assertEquals((await backend.get("data/0")).bytes, bytes(700_000));
        await Deno.remove(`${disk}/filler`);
        await backend.delete("data/0");
        await backend.replace("refs/db/main.json", text("new"), etag);
      }),
  });
}

Deno.test({
  name: `a store that may only be read can be read, and denies every write${NO_TMPFS}`,
  ignore: NO_TMPFS !== "",
  fn: () =>
    inDirectory(async (directory) => {
      const writable = await LocalBackend.open(`${directory}/store`);
      const etag = await writable.create("dir/k", text("k"));
      await using view = await mountReadOnlyView(directory);
      const backend = await LocalBackend.open(`${view.directory}/store`);
      assertEquals(await backend.get("dir/k"), { bytes: text("k"), etag });
      assertEquals(await keys(backend), ["dir/k"]);
      assertEquals(await code(() => backend.create("new/k", text("x"))), "denied");
      assertEquals(await code(() => backend.replace("dir/k", text("x"), etag)), "denied");
      assertEquals(await code(() => backend.put("dir/k", text("x"))), "denied");
      assertEquals(await code(() => backend.copy("dir/k", "dir/l")), "denied");
      assertEquals(await code(() => backend.delete("dir/k")), "denied");
      assertEquals(await code(() => LocalBackend.open(`${view.directory}/new`)), "denied");
      assertEquals(await keys(writable), ["dir/k"]);
    }),
});

Deno.test({
  name: `clones move whole files in and out at no cost in space${NO_XFS}`,
  ignore: NO_XFS !== "",
  fn: () =>
    withMount("xfs", MIN_XFS_MB, async (disk) => {
      const backend = await LocalBackend.open(`${disk}/store`);
      const clone = backend.clone!;
      const image = new Uint8Array(64 * MIB);
      for (let at = 0; at < image.length; at += 4096) image[at] = at / 4096;
      await Deno.writeFile(`${disk}/image`, image, { mode: 0o640 });
      const before = await freeBytes(disk);
      await clone.cloneIn(`${disk}/image`, "data/l/snapshot");
      await clone.cloneIn(`${disk}/image`, "data/l/snapshot");
      await clone.cloneOut("data/l/snapshot", `${disk}/out`);
      await backend.copy("data/l/snapshot", "data/l/copy");
      assert(before - await freeBytes(disk) < 8 * MIB, "the blocks are not shared");
      assertEquals((await backend.head("data/l/copy")).size, image.length);
      assertEquals((await Deno.stat(`${disk}/store/data/l/snapshot`)).mode! & 0o777, 0o600);
      const out = await Deno.readFile(`${disk}/out`);
      assert(out.length === image.length && out.every((byte, at) => byte === image[at]));
      assertEquals(await code(() => clone.cloneOut("data/l/snapshot", `${disk}/image`)), "precondition_failed");
      assertEquals(await code(() => clone.cloneOut("none", `${disk}/none`)), "not_found");
      assertEquals(await code(() => clone.cloneOut("data/l/snapshot", `${disk}/none/x`)), "unavailable");
      assertEquals(await code(() => clone.cloneIn(`${disk}/none`, "data/l/x")), "unavailable");
      assertEquals(Array.from(Deno.readDirSync(disk), ({ name }) => name).sort(), ["image", "out", "store"]);
      assertEquals(temporaries(`${disk}/store`), []);
    }),
});

Deno.test({
  name: `cloneIn() of a database keeps the locks that SQLite holds on it in this process${NO_XFS}`,
  ignore: NO_XFS !== "",
  fn: () =>
    withMount("xfs", MIN_XFS_MB, async (disk) => {
      const backend = await LocalBackend.open(`${disk}/store`);
      using database = new DatabaseSync(`${disk}/app.db`);
      database.exec("CREATE TABLE t (x); BEGIN IMMEDIATE; INSERT INTO t VALUES (1)");
      const rival = async () => {
        const shell = new Deno.Command("sqlite3", { args: [`${disk}/app.db`, "BEGIN IMMEDIATE"], stderr: "piped" });
        return new TextDecoder().decode((await shell.output()).stderr);
      };
      await backend.clone!.cloneIn(`${disk}/app.db`, "data/image");
      assert((await rival()).includes("locked"));
      // The counter-example, which shows that the test can tell.
      await Deno.readFile(`${disk}/app.db`);
      assertEquals(await rival(), "");
    }),
});

Deno.test({
  name: `without cp, or the permission to run it, a store works and clones nothing${NO_XFS}`,
  ignore: NO_XFS !== "",
  fn: () =>
    withMount("xfs", MIN_XFS_MB, async (disk) => {
      const directory = `${disk}/store`;
      assertEquals((await LocalBackend.open(directory, { cp_path: "/nowhere/cp" })).clone, undefined);
      const script = `
        import { LocalBackend } from ${JSON.stringify(import.meta.resolve("./local.ts"))};
        const backend = await LocalBackend.open(${JSON.stringify(directory)});
        const etag = await backend.create("dir/a", new Uint8Array(5));
        await backend.replace("dir/a", new Uint8Array(6), etag);
        await backend.copy("dir/a", "dir/b");
        await backend.delete("dir/a");
        for await (const { key, size } of backend.list("")) console.log(key, size, backend.clone === undefined);
      `;
      const config = new URL(import.meta.resolve("../../deno.json")).pathname;
      await Deno.writeTextFile(`${disk}/script.ts`, script);
      const { stdout, stderr } = await new Deno.Command(Deno.execPath(), {
        args: ["run", "--no-prompt", `--config=${config}`, `--allow-read=${directory}`, `--allow-write=${directory}`]
          .concat(`${disk}/script.ts`),
      }).output();
      assertEquals(new TextDecoder().decode(stdout), "dir/b 6 true\n", new TextDecoder().decode(stderr));
    }),
});
