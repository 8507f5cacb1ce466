/**
 * What a sandbox of bubblewrap has, what it is held to, and what it cannot see; `taskd redteam` has the attacks.
 */

import { assert, assertEquals } from "@std/assert";
import { dirname } from "@std/path/dirname";
import { systemClock } from "../../../lib/clock.ts";
import { readHostView } from "../../../broker/sandbox/bubblewrap/host_view.ts";
import { listProcesses } from "../../../broker/sandbox/processes.ts";
import { bubblewrapTest, testBubblewrap } from "../../support/bubblewrap.ts";
import { runIn, startIn } from "./_container.ts";
import { longTest } from "../../support/long.ts";

const HOG = "x = []\nwhile True: x.append(bytearray(10_000_000))";
/** Its first thread ends, and another holds memory that all processes may share: no limit of a process counts that. */
const HEADLESS = `
import ctypes, mmap, os, platform, threading, time
def hold():
    time.sleep(0.2)
    held = mmap.mmap(-1, 300 << 20)
    for at in range(0, len(held), 4096): held[at] = 1
    time.sleep(8)
    os._exit(0)
threading.Thread(target=hold).start()
ctypes.CDLL(None).syscall({"x86_64": 60, "aarch64": 93}[platform.machine()], 0)
`;
const IS_ROOT = Deno.uid() === 0;

bubblewrapTest("a program reaches the gateway and the proxy at the address that containers have", async () => {
  await using test = await testBubblewrap();
  const greeted = (port: number) => `exec 3<>/dev/tcp/127.0.0.1/${port} && cat <&3; echo`;
  const { out, end } = await runIn(test, ["/bin/bash", "-c", `${greeted(8088)}; ${greeted(3128)}`]);
  assertEquals([end.code, out], [0, ["the gateway", "the proxy"]]);
  const setup = await runIn(test, ["/bin/bash", "-c", greeted(8088)], { reach: "proxy" });
  assertEquals(setup.out, [""]);
});

bubblewrapTest("what it may write it writes as its user, who is no one on the host", async () => {
  await using test = await testBubblewrap();
  const home = await Deno.makeTempDir();
  const { end, work_dir } = await runIn(
    test,
    ["/bin/sh", "-c", "echo made >/home/agent/made && cp /home/agent/made /workspace/made && id -u"],
    { mounts: [{ source: home, target: "/home/agent", writable: true }] },
  );
  assertEquals(end.code, 0);
  assertEquals(await Deno.readTextFile(`${work_dir}/made`), "made\n");
  const { uid, gid, mode } = await Deno.stat(`${home}/made`);
  assertEquals([uid, gid], IS_ROOT ? [1_900_001_000, 1_900_001_000] : [Deno.uid(), Deno.gid()]);
  assertEquals(mode! & 0o777, 0o644);
});

bubblewrapTest(
  "variables and words arrive as they are, and no secret is in a command line",
  async () => {
    await using test = await testBubblewrap();
    const secret = `token-${crypto.randomUUID()}`;
    const spaced = "a b 'c' \"d\" $e #f = g\nand more";
    const seen = new Set<string>();
    const { sandbox, line } = await startIn(test, ["/bin/sh", "-c", 'echo "has $TOKEN"; sleep 600'], {
      env: { TOKEN: secret },
    });
    assertEquals(await line("has"), `has ${secret}`);
    for (const { command_line } of await listProcesses()) seen.add(command_line);
    assertEquals([...seen].filter((command_line) => command_line.includes(secret)), []);
    await sandbox.stop();
    const { out } = await runIn(test, ["/bin/sh", "-c", 'printenv SPACED; echo "$1"', "sh", spaced], {
      env: { SPACED: spaced, LD_PRELOAD: "" },
    });
    assertEquals(out, [...spaced.split("\n"), ...spaced.split("\n")]);
  },
);

bubblewrapTest(
  "no process of a sandbox has a file of the host open",
  async () => {
    await using test = await testBubblewrap();
    const script =
      "for fd in /proc/[0-9]*/fd/*; do readlink $fd; done | grep -vE '^(pipe|socket|anon_inode):|^/dev/null$'";
    const { out, end } = await runIn(test, ["/bin/sh", "-c", `ls /proc/1/fd >/dev/null && ${script}`]);
    // What reads the list has that open.
    assertEquals(out.filter((path) => !path.startsWith("/proc/")), []);
    assert(end.code === 0 || end.code === 1);
  },
);

bubblewrapTest("a program of a home runs, with its interpreter, and the rest of the home is not there", async () => {
  const home = await Deno.makeTempDir({ dir: "/var/tmp" });
  const files = {
    ".nvm/v20/bin/node": '#!/bin/sh\nexec /bin/sh "$@"\n',
    ".nvm/v20/lib/node_modules/claude/cli.js":
      "#!/usr/bin/env node\necho claude runs; cat $HOME_OF/key; ls -A $HOME_OF\n",
    "key": "a key",
  };
  try {
    for (const [name, text] of Object.entries(files)) {
      await Deno.mkdir(dirname(`${home}/${name}`), { recursive: true });
      await Deno.writeTextFile(`${home}/${name}`, text, { mode: 0o755 });
    }
    await Deno.symlink("../lib/node_modules/claude/cli.js", `${home}/.nvm/v20/bin/claude`);
    const view = readHostView({ path: `${home}/.nvm/v20/bin`, home, programs: ["claude"], read: [], own: [] });
    await using test = await testBubblewrap({ view });
    const { out, err, end } = await runIn(test, ["claude"], { env: { HOME_OF: home } });
    assertEquals([end.code, out], [0, ["claude runs", ".nvm"]]);
    assert(err[0]!.includes("No such file"), err.join());
  } finally {
    await Deno.remove(home, { recursive: true });
  }
});

bubblewrapTest("each process has its bound of memory, and the sandbox one of processes", async () => {
  await using test = await testBubblewrap();
  const { err, end } = await runIn(test, ["/usr/bin/python3", "-c", HOG], { memory_bytes: 128 << 20 });
  assertEquals([end.code, err.at(-1)], [1, "MemoryError"]);
  const flood = ["dd", "if=/dev/zero", "of=/tmp/x", "bs=1M", "count=1000"];
  assertEquals((await runIn(test, flood, { memory_bytes: 128 << 20 })).end.code, 1);
  const inside = await runIn(test, ["/bin/bash", "-c", "ulimit -u; ulimit -d; ulimit -c"], {
    memory_bytes: 128 << 20,
    max_pids: 50,
  });
  assertEquals(inside.out, ["50", String(128 << 10), "0"]);
});

bubblewrapTest("processes that have too much together are ended where no control group bounds them", async () => {
  await using test = await testBubblewrap();
  const each = "import time\nx = bytearray(100 << 20)\nfor i in range(0, len(x), 4096): x[i] = 1\ntime.sleep(600)";
  const script = `for i in 1 2 3; do /usr/bin/python3 -c '${each}' & done; wait`;
  const { end } = await runIn(test, ["/bin/sh", "-c", script], { memory_bytes: 150 << 20 });
  assertEquals([end.reason, end.code], ["out_of_memory", 137]);
}, longTest);

bubblewrapTest("a process counts whose first thread has ended, where no control group bounds it", async () => {
  // Looks follow quickly.
  const sleep = (ms: number, signal?: AbortSignal) => systemClock.sleep(ms === 1_000 ? 20 : ms, signal);
  await using test = await testBubblewrap({ clock: { ...systemClock, sleep } });
  const { end } = await runIn(test, ["/usr/bin/python3", "-c", HEADLESS], { memory_bytes: 128 << 20 });
  assertEquals([end.reason, end.code], ["out_of_memory", 137]);
});

bubblewrapTest("a control group bounds a sandbox as a whole, and is gone with it", async () => {
  if (!IS_ROOT || !await isThere("/sys/fs/cgroup/memory/memory.limit_in_bytes")) return;
  await using test = await testBubblewrap({ bounding: "v1" });
  const script = `for i in 1 2 3; do /usr/bin/python3 -c '${HOG}' & done; wait; exit 137`;
  const { end, task_id } = await runIn(test, ["/bin/sh", "-c", script], { memory_bytes: 256 << 20 });
  assertEquals([end.reason, end.code], ["out_of_memory", 137]);
  for (const controller of ["memory", "pids", "cpu"]) {
    assert(!await isThere(`/sys/fs/cgroup/${controller}/taskd-${task_id}`), controller);
  }
  assertEquals((await runIn(test, ["/bin/sh", "-c", "exit 3"])).end, {
    reason: "exited",
    code: 3,
    output_truncated: false,
  });
}, longTest);

bubblewrapTest("a control group of the first version bounds what TCP buffers too", async () => {
  const file = "memory.kmem.tcp.limit_in_bytes";
  if (!IS_ROOT || !await isThere(`/sys/fs/cgroup/memory/${file}`)) return;
  await using test = await testBubblewrap({ bounding: "v1" });
  const program = ["/bin/sh", "-c", "echo ready; exec sleep 600"];
  const { task_id, sandbox, line } = await startIn(test, program, { memory_bytes: 256 << 20 });
  await line("ready");
  const bound = await Deno.readTextFile(`/sys/fs/cgroup/memory/taskd-${task_id}/${file}`);
  await sandbox.stop();
  assertEquals(Number(bound), 64 << 20);
});

async function isThere(path: string): Promise<boolean> {
  return await Deno.lstat(path).then(() => true, () => false);
}
