/**
 * What a container sandbox can do to its host and to itself, tried from inside of it.
 *
 * @module
 */

import { assert, assertEquals } from "@std/assert";
import { psLister } from "../../../broker/sandbox/processes.ts";
import { podmanTest, testRuntime } from "../../support/podman.ts";
import { attempts, runIn, startIn } from "./_container.ts";

// conformance: b1.sandbox b2.ceiling.not_in_sandbox
podmanTest("a sandbox cannot write outside its folders, nor gain rights, nor see its host", async () => {
  await using test = await testRuntime(21);
  await test.runtime.prepare();
  const home = await Deno.makeTempDir();
  const got = await attempts(
    test,
    `
for path in ("/x", "/etc/passwd", "/usr/bin/x", "/usr/local/libexec/taskd-entrypoint", "/home/x", "/dev/x", "/run/x",
             "/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/sys/fs/cgroup/memory/memory.limit_in_bytes",
             "/sys/fs/cgroup/memory.max", "/sys/kernel/uevent_helper", "/proc/1/oom_score_adj_x"):
    attempt("no: write " + path, lambda path=path: open(path, "w").write("x"))
attempt("no: mount", lambda: call("mount", b"none", b"/tmp", b"tmpfs", 0, None))
attempt("no: unmount", lambda: call("umount2", b"/work", 2))
attempt("no: remount the root writable", lambda: call("mount", None, b"/", None, 32, None))
attempt("no: make a device", lambda: os.mknod("/tmp/disk", 0o60600, os.makedev(254, 0)))
attempt("no: chroot", lambda: os.chroot("/tmp"))
attempt("no: become root", lambda: os.setuid(0))
attempt("no: a mount namespace", lambda: run("unshare", "--mount", "true"))
attempt("no: give a file to root", lambda: os.chown("/work/attempts.py", 0, 0))
attempt("no: set the clock", lambda: __import__("time").clock_settime(0, 0))
attempt("no: the host's name", lambda: socket.sethostname("x"))
attempt("no: lower its niceness", lambda: os.nice(-5))
attempt("no: raise a limit", lambda: __import__("resource").setrlimit(7, (10**6, 10**6)))
attempt("no: the kernel's log", lambda: open("/dev/kmsg").read(1))
attempt("no: the memory of the host", lambda: open("/proc/kcore", "rb").read(1)[0])
attempt("no: a kernel module", lambda: run("/bin/sh", "-c", "command -v insmod && insmod /work/attempts.py"))
attempt("no: bpf", lambda: call("syscall", 321, 0, 0, 0))
[thread.join() for thread in running]
def suid():
    import shutil
    shutil.copy("/bin/sh", "/tmp/sh")
    os.chmod("/tmp/sh", 0o6755)
    return os.popen("/tmp/sh -p -c 'id -u'").read().strip()
attempt("uid of a program with the set-user-id bit", suid)
attempt("set-id programs", lambda: os.popen("find / -xdev -perm /6000 -type f -not -path '/tmp/*' 2>/dev/null").read().strip() or "none")
attempt("sockets", lambda: os.popen("find / -type s 2>/dev/null").read().strip() or "none")
attempt("uids of processes", lambda: " ".join(sorted({str(os.stat("/proc/" + pid).st_uid) for pid in os.listdir("/proc") if pid.isdigit()})))
attempt("folders of the host", lambda: " ".join(sorted(line.split()[1] for line in open("/proc/mounts") if line.startswith("/dev/"))))
attempt("environment", lambda: " ".join(sorted(os.environ)))
attempt("names", lambda: open("/etc/hosts").read() + open("/etc/resolv.conf").read())
attempt("host name", socket.gethostname)
attempt("writes its work tree", lambda: open("/work/made", "w").write("x"))
attempt("writes its home", lambda: open("/home/agent/made", "w").write("x"))
attempt("writes /tmp", lambda: open("/tmp/made", "w").write("x"))
`,
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
    folders.isSubsetOf(new Set(["/work", "/home/agent", "/run/.containerenv", "/etc/hostname"])),
    [...folders].join(),
  );
  // Whoever it is in there, outside it is nobody's user.
  const { uid, gid } = await Deno.stat(`${home}/made`);
  assertEquals([uid, gid], [1_900_001_000, 1_900_001_000]);
});

podmanTest("a fork bomb meets its bound, and the sandbox still ends", async () => {
  await using test = await testRuntime(22);
  await test.runtime.prepare();
  const script = `
import os, time
count = 0
try:
    while True:
        if os.fork() == 0:
            time.sleep(600)
        count += 1
except BlockingIOError:
    print("made", count, flush=True)
time.sleep(600)
`;
  const { sandbox, line } = await startIn(test, ["python3", "-c", script], { max_pids: 40 });
  const made = Number((await line("made")).split(" ")[1]);
  assert(made > 10 && made < 40, String(made));
  assertEquals((await sandbox.stop()).reason, "stopped");
});

podmanTest("a memory hog is ended and the end says so", async () => {
  await using test = await testRuntime(23);
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
});

podmanTest("secrets of a sandbox are on no command line of the host", async () => {
  await using test = await testRuntime(24);
  await test.runtime.prepare();
  const secret = `token-${crypto.randomUUID()}`;
  const seen = new Set<string>();
  const { sandbox, line } = await startIn(test, ["/bin/sh", "-c", 'echo "has $TOKEN"; sleep 600'], {
    env: { TOKEN: secret, SPACED: "a b 'c' \"d\" $e #f = g" },
  });
  assertEquals(await line("has"), `has ${secret}`);
  for (const { command_line } of await psLister()()) seen.add(command_line);
  assertEquals([...seen].filter((command_line) => command_line.includes(secret)), []);
  await sandbox.stop();
  const { out } = await runIn(test, ["printenv", "SPACED"], { env: { SPACED: "a b 'c' \"d\" $e #f = g" } });
  assertEquals(out, ["a b 'c' \"d\" $e #f = g"]);
});
