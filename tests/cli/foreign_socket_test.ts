import { assertEquals, assertStringIncludes } from "@std/assert";
import { BrokerClient } from "../../broker/client/client.ts";
import { connect, subscribe } from "../../lib/client/client.ts";
import { TaskdError } from "../../lib/errors.ts";
import { makePlace, type Place } from "./support/taskd.ts";

const STRANGER = 65_534;
const IGNORED = Deno.uid() === 0 ? "" : ": ignored, only root can make one";

interface Trap {
  place: Place;
  /** Where a program expects the broker or the daemon, and another user listens. */
  socket: string;
  env: Record<string, string>;
  /** Connections that the other user received. */
  received: () => number;
}

/** A socket of another user where this user's is expected, as anyone can make `/tmp/taskd-<uid>` first. */
async function withTrap(foreign: "folder" | "socket" | "link", test: (trap: Trap) => Promise<void>): Promise<void> {
  await using place = await makePlace();
  const temporary = `${place.base}/tmp`;
  Deno.mkdirSync(temporary);
  Deno.chmodSync(temporary, 0o1777);
  const folder = `${temporary}/taskd-${Deno.uid()}`;
  const made = foreign === "link" ? `${place.base}/elsewhere` : folder;
  Deno.mkdirSync(made, { mode: 0o755 });
  using listener = Deno.listen({ transport: "unix", path: `${made}/taskd.sock` });
  Deno.chmodSync(`${made}/taskd.sock`, 0o600);
  if (foreign === "link") Deno.symlinkSync(made, folder);
  const lchown = (await import("node:fs")).lchownSync;
  lchown(foreign === "socket" ? `${folder}/taskd.sock` : folder, STRANGER, STRANGER);
  let received = 0;
  (async () => {
    for await (const conn of listener) {
      received++;
      conn.close();
    }
  })().catch(() => {});
  const home = `${place.base}/home`;
  Deno.mkdirSync(`${home}/.taskd`, { recursive: true, mode: 0o700 });
  const { DENO_DIR = `${Deno.env.get("HOME")}/.cache/deno` } = Deno.env.toObject();
  await test({
    place,
    socket: `${folder}/taskd.sock`,
    env: { HOME: home, TMPDIR: temporary, XDG_RUNTIME_DIR: "", DENO_DIR },
    received: () => received,
  });
}

for (const foreign of ["folder", "socket", "link"] as const) {
  Deno.test({
    name: `a ${foreign} of another user is refused by commands of the broker before they connect${IGNORED}`,
    ignore: IGNORED !== "",
    fn: () =>
      withTrap(foreign, async ({ place, socket, env, received }) => {
        const calls = [
          ["submit", "https://example.com/ada/shop", "the instruction"],
          ["tasks"],
          ...(foreign === "folder" ? [["stop"]] : []),
        ];
        for (const words of calls) {
          const { code, stderr } = await place.taskdIn({ ...env, BROKER_SOCKET: socket }, ...words);
          assertEquals(code === 0, false, stderr);
          assertStringIncludes(stderr, `belongs to another user (${STRANGER})`);
          assertStringIncludes(stderr, "BROKER_SOCKET");
        }
        assertEquals(received(), 0);
      }),
  });
}

for (const foreign of ["folder", "socket"] as const) {
  Deno.test({
    name: `a ${foreign} of another user is refused by commands of the store before they connect${IGNORED}`,
    ignore: IGNORED !== "",
    fn: () =>
      withTrap(foreign, async ({ place, socket, env, received }) => {
        for (const words of [["session", "status"], ["mcp"], ["watch"]]) {
          const { code, stderr } = await place.taskdIn(env, ...words, "--socket", socket);
          assertEquals(code === 0, false, stderr);
          assertStringIncludes(stderr, `belongs to another user (${STRANGER})`);
        }
        assertEquals(received(), 0);
      }),
  });

  Deno.test({
    name: `a ${foreign} of another user is refused by both clients of the library${IGNORED}`,
    ignore: IGNORED !== "",
    fn: () =>
      withTrap(foreign, async ({ socket, received }) => {
        const calls = [
          () => connect(socket),
          () => subscribe(socket).next(),
          () => new BrokerClient({ socket }).health(),
        ];
        for (const call of calls) {
          const error = await call().then(() => undefined, (error: unknown) => error);
          assertEquals(error instanceof TaskdError && error.code, "denied");
        }
        assertEquals(received(), 0);
      }),
  });
}

/** A home directory whose `~/.taskd` another user has made, or in which others could exchange it. */
async function withForeignHome(
  foreign: "folder" | "home",
  test: (taskd: (...words: string[]) => Promise<{ code: number; stderr: string }>, directory: string) => Promise<void>,
): Promise<void> {
  await using place = await makePlace();
  const home = `${place.base}/home`;
  const directory = `${home}/.taskd`;
  Deno.mkdirSync(directory, { recursive: true, mode: 0o700 });
  if (foreign === "folder") Deno.chownSync(directory, STRANGER, STRANGER);
  else Deno.chmodSync(home, 0o777);
  const { DENO_DIR = `${Deno.env.get("HOME")}/.cache/deno` } = Deno.env.toObject();
  const env = { HOME: home, TMPDIR: place.base, XDG_RUNTIME_DIR: "", BSTORE_STORE: "", DENO_DIR };
  await test((...words) => place.taskdIn(env, ...words), directory);
}

for (const foreign of ["folder", "home"] as const) {
  const what = foreign === "folder" ? "a ~/.taskd of another user" : "a ~/.taskd that others could exchange";
  Deno.test({
    name: `${what} is refused by every command that uses it unnamed${IGNORED}`,
    ignore: IGNORED !== "",
    fn: () =>
      withForeignHome(foreign, async (taskd, directory) => {
        const calls = [
          ["init"],
          ["setup", "--yes", "--runtime", "deno"],
          ["create", "shop"],
          ["branches"],
          ["mcp"],
          ["serve"],
          ["start"],
          ["branches", "--store", "s3://bucket/prefix"],
        ];
        for (const words of calls) {
          const { code, stderr } = await taskd(...words);
          assertEquals(code === 0, false, words.join(" "));
          assertStringIncludes(stderr, foreign === "folder" ? `belongs to another user (${STRANGER})` : "(mode 0777)");
        }
        assertEquals([...Deno.readDirSync(directory)], []);
      }),
  });
}
