import { assert, assertEquals, assertRejects } from "@std/assert";
import { join } from "@std/path/join";
import { TaskdError } from "./errors.ts";
import { MAX_SOCKET_PATH_BYTES, socketStagingOf } from "./socket_path.ts";
import { bindSocket } from "./unix_socket.ts";

async function inFolder(test: (folder: string) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir();
  try {
    await test(folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

async function codeOf(path: string): Promise<string> {
  return (await assertRejects(() => bindSocket(path), TaskdError)).code;
}

Deno.test("the socket is its owner's alone, and gone at the end", () =>
  inFolder(async (folder) => {
    const path = join(folder, "s.sock");
    const socket = await bindSocket(path);
    assertEquals(Deno.lstatSync(path).mode! & 0o777, 0o600);
    assertEquals(await codeOf(path), "daemon_running");
    socket.close();
    assertEquals([...Deno.readDirSync(folder)], []);
  }));

Deno.test("a socket is made 0600 under any umask, and the umask of the process stays as it is", () =>
  inFolder(async (folder) => {
    const path = join(folder, "s.sock");
    const bind = `
      const { bindSocket } = await import(${JSON.stringify(import.meta.resolve("./unix_socket.ts"))});
      const modes = [];
      for (const mask of [0, 0o22, 0o177]) {
        Deno.umask(mask);
        const socket = await bindSocket(${JSON.stringify(path)});
        modes.push(Deno.umask() === mask && Deno.lstatSync(${JSON.stringify(path)}).mode & 0o777);
        socket.close();
      }
      console.log(JSON.stringify(modes));`;
    // A process of its own: the umask of this one is that of every test beside this.
    const { stdout } = await new Deno.Command(Deno.execPath(), { args: ["eval", bind] }).output();
    assertEquals(new TextDecoder().decode(stdout).trim(), JSON.stringify([0o600, 0o600, 0o600]));
    assertEquals([...Deno.readDirSync(folder)], []);
  }));

Deno.test("bindSocket() clears a killed process's staging directory and nothing else", () =>
  inFolder(async (folder) => {
    const path = join(folder, "s.sock");
    const staging = socketStagingOf(path);
    Deno.mkdirSync(staging.directory);
    const bind = `Deno.listen({transport:"unix",path:${JSON.stringify(staging.socket)}});Deno.kill(Deno.pid,"SIGKILL")`;
    await new Deno.Command(Deno.execPath(), { args: ["eval", bind] }).output();
    assert(Deno.lstatSync(staging.socket).isSocket);
    (await bindSocket(path)).close();
    assertEquals([...Deno.readDirSync(folder)], []);
    Deno.mkdirSync(staging.directory);
    await Deno.writeTextFile(`${staging.directory}/precious`, "precious");
    assertEquals(await codeOf(path), "already_exists");
    assertEquals(await Deno.readTextFile(`${staging.directory}/precious`), "precious");
    await Deno.remove(staging.directory, { recursive: true });
    await Deno.writeTextFile(staging.directory, "precious");
    assertEquals(await codeOf(path), "already_exists");
    assertEquals(await Deno.readTextFile(staging.directory), "precious");
  }));

Deno.test("of several that bind a socket at once one succeeds, and the others get daemon_running", () =>
  inFolder(async (folder) => {
    const path = join(folder, "s.sock");
    const stale = `Deno.listen({transport:"unix",path:${JSON.stringify(path)}});Deno.kill(Deno.pid,"SIGKILL")`;
    await new Deno.Command(Deno.execPath(), { args: ["eval", stale] }).output();
    const bind = `
      const { bindSocket } = await import(${JSON.stringify(import.meta.resolve("./unix_socket.ts"))});
      await Deno.stdin.read(new Uint8Array(1));
      const said = await bindSocket(${JSON.stringify(path)}).then(() => "bound", (error) => error.code);
      console.log(said);
      await Deno.stdin.read(new Uint8Array(1));
      Deno.exit();`;
    const children = Array.from(
      { length: 4 },
      () => new Deno.Command(Deno.execPath(), { args: ["eval", bind], stdin: "piped", stdout: "piped" }).spawn(),
    );
    const writers = children.map(({ stdin }) => stdin.getWriter());
    const go = () => Promise.all(writers.map((writer) => writer.write(new Uint8Array(1))));
    await go();
    const readers = children.map(({ stdout }) => stdout.pipeThrough(new TextDecoderStream()).getReader());
    const said = await Promise.all(readers.map(async (reader) => (await reader.read()).value?.trim()));
    await go();
    for (const [i, reader] of readers.entries()) {
      await reader.read();
      await writers[i]!.close().catch(() => {});
      await children[i]!.status;
    }
    assertEquals(said.toSorted(), ["bound", "daemon_running", "daemon_running", "daemon_running"]);
  }));

Deno.test("a socket that no process answers is replaced", () =>
  inFolder(async (folder) => {
    const path = join(folder, "s.sock");
    const bind = `Deno.listen({transport:"unix",path:${JSON.stringify(path)}});Deno.kill(Deno.pid,"SIGKILL")`;
    await new Deno.Command(Deno.execPath(), { args: ["eval", bind] }).output();
    assert(Deno.lstatSync(path).isSocket);
    (await bindSocket(path)).close();
  }));

Deno.test("a file, a symlink or a directory in the socket's place is refused and left alone", () =>
  inFolder(async (folder) => {
    const path = join(folder, "s.sock");
    await Deno.writeTextFile(path, "precious");
    assertEquals(await codeOf(path), "already_exists");
    assertEquals(await Deno.readTextFile(path), "precious");
    const link = join(folder, "link.sock");
    const real = await bindSocket(join(folder, "real.sock"));
    await Deno.symlink(join(folder, "real.sock"), link);
    assertEquals(await codeOf(link), "already_exists");
    real.close();
    assertEquals(await codeOf(folder), "already_exists");
  }));

Deno.test("a path that cannot be a socket's says why", () =>
  inFolder(async (folder) => {
    const fits = join(folder, "x".repeat(MAX_SOCKET_PATH_BYTES - folder.length - 1));
    (await bindSocket(fits)).close();
    assertEquals(await codeOf(`${fits}x`), "usage");
    assertEquals(await codeOf(join(folder, "missing", "s.sock")), "not_found");
    await Deno.writeTextFile(join(folder, "file"), "");
    assertEquals(await codeOf(join(folder, "file", "s.sock")), "not_found");
    await Deno.symlink("loop", join(folder, "loop"));
    assertEquals(await codeOf(join(folder, "loop", "s.sock")), "denied");
  }));

Deno.test({
  name: "closing leaves a socket alone that another daemon has put there since",
  // The displaced listener stays open by design.
  sanitizeResources: false,
  fn: () =>
    inFolder(async (folder) => {
      const path = join(folder, "s.sock");
      const first = await bindSocket(path);
      await Deno.rename(path, join(folder, "moved.sock"));
      const second = await bindSocket(path);
      first.close();
      assert(Deno.lstatSync(path).isSocket);
      second.close();
    }),
});
