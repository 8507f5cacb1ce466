/**
 * What a container sandbox can do to its host and to itself, tried from inside of it.
 */

import { assert, assertEquals } from "@std/assert";
import { FORK_BOMB, WALL_ATTACKS } from "../../../cli/redteam/inputs/container_scripts.ts";
import { listProcesses } from "../../../broker/sandbox/processes.ts";
import { podmanTest, testRuntime } from "../../support/podman.ts";
import { attempts, runIn, startIn } from "./_container.ts";
import { longTest } from "../../support/long.ts";

// conformance: b1.sandbox b2.ceiling.not_in_sandbox
podmanTest("a sandbox cannot write outside its folders, nor gain rights, nor see its host", async () => {
  await using test = await testRuntime();
  await test.runtime.prepare();
  const home = await Deno.makeTempDir();
  const got = await attempts(
    test,
    WALL_ATTACKS,
    { mounts: [{ source: home, target: "/home/agent", writable: true }], env: { HOME: "/home/agent" } },
  );
  const refused = [...got].filter(([name]) => name.startsWith("no: "));
  assertEquals(refused.length, 29);
  assertEquals(refused.filter(([, what]) => !what.startsWith("refused ")), []);
  assertEquals(got.get("uid of a program with the set-user-id bit"), "1000");
  assertEquals(got.get("set-id programs"), "none");
  assertEquals(got.get("sockets"), "none");
  assertEquals(got.get("uids of processes"), "1000");
  // Python sets LC_CTYPE, podman what is not HOME.
  assertEquals(got.get("environment"), "HOME HOSTNAME LC_CTYPE PATH PWD TERM container");
  assertEquals(got.get("names"), "127.0.0.1 localhost\n::1 localhost\n");
  assertEquals(got.get("host name"), "sandbox");
  for (const name of ["writes its work tree", "writes its home", "writes /tmp"]) assertEquals(got.get(name), "1");
  const folders = new Set(got.get("folders of the host")!.split(" "));
  assert(
    folders.isSubsetOf(new Set(["/workspace", "/home/agent", "/run/.containerenv", "/etc/hostname"])),
    [...folders].join(),
  );
  // Whatever its user is inside, it has no rights outside.
  const { uid, gid } = await Deno.stat(`${home}/made`);
  assertEquals([uid, gid], [1_900_001_000, 1_900_001_000]);
});

podmanTest("a fork bomb meets its bound, and the sandbox still ends", async () => {
  await using test = await testRuntime();
  await test.runtime.prepare();
  const { sandbox, line } = await startIn(test, ["python3", "-c", FORK_BOMB], { max_pids: 40 });
  const made = Number((await line("made")).split(" ")[1]);
  assert(made > 10 && made < 40, String(made));
  assertEquals((await sandbox.stop()).reason, "stopped");
});

podmanTest("a memory hog is ended and the end says so", async () => {
  await using test = await testRuntime();
  await test.runtime.prepare();
  const hog = `x = []\nwhile True: x.append(" " * 10_000_000)`;
  const { end } = await runIn(test, ["python3", "-c", hog], { memory_bytes: 128 << 20 });
  assertEquals(end, { reason: "out_of_memory", code: 137, output_truncated: false });
  const killed = await runIn(test, ["/bin/sh", "-c", "kill -9 $$"]);
  assertEquals(killed.end, { reason: "exited", code: 137, output_truncated: false });
  const flood = await runIn(test, ["dd", "if=/dev/zero", "of=/tmp/x", "bs=1M", "count=1000"], {
    memory_bytes: 128 << 20,
  });
  assertEquals(flood.end.code, 1);
}, longTest);

podmanTest("secrets of a sandbox are on no command line of the host", async () => {
  await using test = await testRuntime();
  await test.runtime.prepare();
  const secret = `token-${crypto.randomUUID()}`;
  const seen = new Set<string>();
  const { sandbox, line } = await startIn(test, ["/bin/sh", "-c", 'echo "has $TOKEN"; sleep 600'], {
    env: { TOKEN: secret, SPACED: "a b 'c' \"d\" $e #f = g" },
  });
  assertEquals(await line("has"), `has ${secret}`);
  for (const { command_line } of await listProcesses()) seen.add(command_line);
  assertEquals([...seen].filter((command_line) => command_line.includes(secret)), []);
  await sandbox.stop();
  const { out } = await runIn(test, ["printenv", "SPACED"], { env: { SPACED: "a b 'c' \"d\" $e #f = g" } });
  assertEquals(out, ["a b 'c' \"d\" $e #f = g"]);
});
