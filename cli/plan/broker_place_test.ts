import { assertEquals, assertRejects } from "@std/assert";
import { lockHome } from "../../broker/client/home_lock.ts";
import { systemClock } from "../../lib/clock.ts";
import { TaskdError } from "../../lib/errors.ts";
import { brokerPlace } from "./broker_place.ts";
import { findCommand } from "../table/commands.ts";

/** Plans a call in a home directory with this config.yaml. */
async function place(
  { config, env = {}, socket = null, command = "tasks", live }: {
    config?: string;
    /** Where a broker of that home listens; null while it does not. */
    live?: string | null;
    env?: Record<string, string>;
    socket?: string | null;
    command?: string;
  },
) {
  const home = await Deno.makeTempDir();
  try {
    await Deno.mkdir(`${home}/.taskd`, { mode: 0o700 });
    if (config !== undefined) await Deno.writeTextFile(`${home}/.taskd/config.yaml`, config, { mode: 0o600 });
    using lock = live === undefined ? undefined : await lockHome(home, systemClock);
    if (typeof live === "string") lock?.update({ socket: live });
    const found = await brokerPlace(findCommand(command)!, { socket, store: `${home}/store` }, {
      home,
      entry: "file:///taskd/cli/main.ts",
      absolute: (path) => path,
      env: (name) => env[name],
      daemonSocket: () => Promise.resolve(undefined),
    });
    return { ...found, home: found.home.replace(home, "HOME") };
  } finally {
    await Deno.remove(home, { recursive: true });
  }
}

Deno.test("the broker's socket is the flag's, else the variable's, else the file's, else the default", async () => {
  const config = "broker:\n  socket: /file/k\n";
  const env = { BROKER_SOCKET: "/env/k", TMPDIR: "/t" };
  assertEquals(await place({ config, env, socket: "/flag/k" }), { home: "HOME", socket: "/flag/k" });
  assertEquals(await place({ config, env }), { home: "HOME", socket: "/env/k" });
  assertEquals(await place({ config, env: { TMPDIR: "/t" } }), { home: "HOME", socket: "/file/k" });
  const uid = Deno.uid();
  assertEquals((await place({ env: { TMPDIR: "/t" }, command: "stop" })).socket, `/t/taskd-${uid}/taskd.sock`);
});

Deno.test("without a name the broker of this home is asked, wherever it listens, and no other", async () => {
  const error = await assertRejects(() => place({}), TaskdError, "none runs");
  assertEquals([error.code, error.hint], ["broker_unreachable", "Start it with: taskd start"]);
  assertEquals((await place({ live: "/elsewhere/k" })).socket, "/elsewhere/k");
  assertEquals((await assertRejects(() => place({ live: null }), TaskdError, "not opened")).code, "broker_unreachable");
  assertEquals((await place({ live: "/elsewhere/k", env: { BROKER_SOCKET: "/env/k" } })).socket, "/env/k");
});

Deno.test("a broken config.yaml is reported with its place, and does not hinder a named socket", async () => {
  const config = "broker:\n  sockt: /x\n";
  const error = await assertRejects(() => place({ config }), TaskdError, "config.yaml:2:3");
  assertEquals(error.code, "invalid_config");
  assertEquals((await place({ config, socket: "/flag/k" })).socket, "/flag/k");
});

Deno.test("a socket's path that the system does not accept, and an invalid home, are refused", async () => {
  const long = `/${"s".repeat(110)}`;
  assertEquals((await assertRejects(() => place({ socket: long }), TaskdError, "bytes")).code, "usage");
  await assertRejects(() => place({ env: { BROKER_SOCKET: "relative/k" } }), TaskdError, "must be an absolute path");
  const context = { entry: "file:///taskd/cli/main.ts", absolute: (path: string) => path, env: () => undefined };
  for (const home of [undefined, "relative"]) {
    const call = () =>
      brokerPlace(findCommand("tasks")!, { socket: null }, {
        ...context,
        home,
        daemonSocket: () => Promise.resolve(undefined),
      });
    await assertRejects(call, TaskdError, "there is no home directory");
  }
});
