import { assert, assertEquals, assertRejects } from "@std/assert";
import { join } from "@std/path/join";
import { TaskdError } from "./errors.ts";
import { bindSocket, MAX_SOCKET_PATH_BYTES } from "./unix_socket.ts";

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
    const umask = Deno.umask();
    const socket = await bindSocket(path);
    assertEquals(Deno.lstatSync(path).mode! & 0o777, 0o600);
    assertEquals(Deno.umask(), umask);
    assertEquals(await codeOf(path), "daemon_running");
    socket.close();
    assertEquals([...Deno.readDirSync(folder)], []);
  }));

Deno.test("a socket nobody answers is replaced", () =>
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
