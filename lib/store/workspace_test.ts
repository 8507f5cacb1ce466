import { assertEquals, assertThrows } from "@std/assert";
import { MIN_XFS_MB, whyNotMountable, withMount } from "../../tests/support/mounts.ts";
import { withDirectory } from "../../tests/support/stores.ts";
import { SeededRandom } from "../../tests/support/writers/random.ts";
import { TaskdError } from "../errors.ts";
import { companions, filesBelow, makeDirectory, Workspace } from "./workspace.ts";

const SIDECAR = {
  chain_id: "c",
  digest: "d",
  size: 1,
  mtime_ns: "2",
  change_counter: 3,
  stamped_ns: "4",
  shadow: { size: 5, mtime_ns: "6" },
};

Deno.test("sidecars are read back as written, and count as missing when they are anything else", () =>
  withDirectory((directory) => {
    const workspace = new Workspace(directory, new SeededRandom(1).bytes);
    const path = workspace.checkout("app", "main");
    assertEquals([workspace.sidecar(path), workspace.sessionRecord(path)], [undefined, undefined]);
    workspace.writeSidecar(path, SIDECAR);
    const record = { lineage: "l", heads: [{ txid: 1, digest: "d", mark: null }] };
    workspace.writeSessionRecord(path, record);
    assertEquals([workspace.sidecar(path), workspace.sessionRecord(path)], [SIDECAR, record]);
    assertEquals(Deno.statSync(`${path}.sum`).mode! & 0o777, 0o600);
    for (const text of ["", "{", "null", "[]", JSON.stringify({ ...SIDECAR, size: "1" })]) {
      Deno.writeTextFileSync(`${path}.sum`, text);
      assertEquals(workspace.sidecar(path), undefined);
    }
    Deno.removeSync(`${path}.sum`);
    Deno.symlinkSync(`${path}.session`, `${path}.sum`);
    assertEquals(workspace.sidecar(path), undefined);
    return Promise.resolve();
  }));

Deno.test("a claimed workspace is refused to every other store, and a store's directory to all", () =>
  withDirectory((directory) => {
    const workspace = new Workspace(directory, new SeededRandom(1).bytes);
    workspace.claim("a");
    workspace.claim("a");
    for (const text of [undefined, "{", ""]) {
      if (text !== undefined) Deno.writeTextFileSync(`${directory}/workspace.json`, text);
      const why = text === undefined ? "it is another store's" : "workspace.json: it is damaged";
      assertThrows(() => workspace.claim("b"), TaskdError, why);
    }
    assertEquals([...Deno.readDirSync(directory)].map(({ name }) => name), ["workspace.json"]);
    Deno.writeTextFileSync(`${directory}/bstore.json`, "");
    assertThrows(() => workspace.claim("a"), TaskdError, "it is a store itself");
    return Promise.resolve();
  }));

Deno.test("a sidecar that cannot be written is an error that leaves nothing half done", () =>
  withDirectory((directory) => {
    const workspace = new Workspace(directory, new SeededRandom(1).bytes);
    const path = workspace.checkout("app", "main");
    workspace.writeSidecar(path, SIDECAR);
    Deno.removeSync(`${path}.sum`);
    Deno.mkdirSync(`${path}.sum/x`, { recursive: true });
    assertThrows(() => workspace.writeSidecar(path, SIDECAR), TaskdError);
    assertEquals([...Deno.readDirSync(`${directory}/checkouts/app`)].map(({ name }) => name), ["main.db.sum"]);
    return Promise.resolve();
  }));

Deno.test("directories are private, and a link or file in the place of one is refused", () =>
  withDirectory((directory) => {
    makeDirectory(`${directory}/a/b`, directory);
    makeDirectory(`${directory}/a/b`, directory);
    assertEquals(Deno.statSync(`${directory}/a`).mode! & 0o777, 0o700);
    Deno.symlinkSync("/tmp", `${directory}/link`);
    Deno.writeTextFileSync(`${directory}/file`, "");
    for (const name of ["link", "file", "link/x", "file/x"]) {
      assertThrows(() => makeDirectory(`${directory}/${name}`, directory), TaskdError);
    }
    return Promise.resolve();
  }));

const no_xfs = await whyNotMountable("xfs");
Deno.test({
  name: `a sweep takes what a probe for cloning left whose process was killed${no_xfs}`,
  ignore: no_xfs !== "",
  fn: () =>
    withMount("xfs", MIN_XFS_MB, async (directory) => {
      // In place of cp: it kills who called it.
      await Deno.writeTextFile(`${directory}/cp`, "#!/bin/sh\nkill -9 $PPID\n", { mode: 0o700 });
      const workspace = new Workspace(`${directory}/workspace`, new SeededRandom(1).bytes);
      for (const place of [workspace.root, workspace.byChainDirectory("app")]) {
        makeDirectory(place, workspace.root);
        const code = `import { clonable } from ${JSON.stringify(import.meta.resolve("../fs.ts"))};
          await clonable(${JSON.stringify(place)}, { cp_path: ${JSON.stringify(`${directory}/cp`)} });`;
        const config = new URL(import.meta.resolve("../../deno.json")).pathname;
        const { signal } = await new Deno.Command(Deno.execPath(), {
          args: ["eval", "--no-check", `--config=${config}`, code],
        }).output();
        assertEquals(signal, "SIGKILL");
        assertEquals([...filesBelow(place, 0)].length, 1);
      }
      assertEquals(workspace.sweep((written_ms) => Date.now() - written_ms), 0);
      assertEquals(workspace.sweep((written_ms) => Date.now() + 2 * 24 * 3600 * 1000 - written_ms), 2);
      assertEquals([...filesBelow(workspace.root, 3)], []);
    }),
});

Deno.test("a sidecar that is far too long is none, and is not read", () =>
  withDirectory((directory) => {
    const workspace = new Workspace(directory, new SeededRandom(1).bytes);
    const path = workspace.checkout("app", "main");
    workspace.writeSidecar(path, SIDECAR);
    Deno.writeTextFileSync(`${path}.sum`, " ".repeat(1 << 20), { append: true });
    assertEquals(workspace.sidecar(path), undefined);
    return Promise.resolve();
  }));

Deno.test("no branch's file is another branch's companion", () => {
  const workspace = new Workspace("/w", new SeededRandom(1).bytes);
  const names = ["a", "a.db", "a.db-wal", "a.db.sum", "a.db.sum.db", "a-wal", "a.db.shadow"];
  const paths = names.map((name) => workspace.checkout("app", name));
  const all = paths.flatMap((path) => [path, ...companions(path)]);
  assertEquals(new Set(all).size, all.length);
});
