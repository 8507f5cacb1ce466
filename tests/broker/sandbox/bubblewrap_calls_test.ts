/**
 * The filter of system calls, probed from inside of a sandbox, call by call; and the table that it is made of, against
 * what it comes from.
 */

import { assertEquals } from "@std/assert";
import { existsSync } from "@std/fs/exists";
import type { SystemCalls } from "../../../broker/sandbox/bubblewrap/seccomp_filter.ts";
import table from "../../../broker/sandbox/bubblewrap/system_calls.json" with { type: "json" };
import { bubblewrapTest, testBubblewrap } from "../../support/bubblewrap.ts";
import { allowedBy, PROFILE } from "../../tools/system_calls.ts";
import { runIn } from "./_container.ts";

const CALLS = table as unknown as SystemCalls;
const NUMBER = Deno.build.arch === "x86_64" ? 1 : 2;

/** Each in a process of its own, which the answer cannot hurt; arguments are those that change nothing. */
const PROBES = `
import ctypes, errno, json, os, sys
libc = ctypes.CDLL(None, use_errno=True)
got = {}
for name, number, *args in json.load(open("/workspace/calls.json")):
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        done = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(arg) for arg in args or [-1, -1, -1, -1, -1, -1]])
        os.write(writer, (errno.errorcode[ctypes.get_errno()] if done == -1 else "done").encode())
        os._exit(0)
    os.close(writer)
    got[name] = os.read(reader, 100).decode()
    os.close(reader)
    status = os.waitpid(pid, 0)[1]
    if os.WIFSIGNALED(status):
        got[name] = "signal %d" % os.WTERMSIG(status)
print(json.dumps(got))
`;

type Probe = readonly [name: string, call: string | number, ...args: number[]];

async function probed(probes: readonly Probe[]): Promise<Record<string, string>> {
  await using test = await testBubblewrap();
  const rows = probes.map(([name, call, ...args]) => [
    name,
    typeof call === "number" ? call : CALLS[call]![NUMBER],
    ...args,
  ]);
  const files = { "calls.json": JSON.stringify(rows.filter(([, number]) => number !== null)), "probe.py": PROBES };
  const { out, err, end } = await runIn(test, ["/usr/bin/python3", "/workspace/probe.py"], { files });
  assertEquals(end.code, 0, err.join("\n"));
  return JSON.parse(out[0]!);
}

bubblewrapTest("every call that the table refuses is refused inside, and what it does not know is absent", async () => {
  const of = (rule: string): Probe[] =>
    Object.keys(CALLS).filter((name) => CALLS[name]![0] === rule).map((name) => [name, name]);
  const refused = await probed(of("refuse"));
  assertEquals(Object.entries(refused).filter(([, got]) => got !== "EPERM"), []);
  const absent = await probed([...of("absent"), ["newer", 999], ["newest", 5_000]]);
  assertEquals(Object.entries(absent).filter(([, got]) => got !== "ENOSYS"), []);
});

bubblewrapTest("calls that are decided by their arguments are decided inside as in the table", async () => {
  const x32 = Deno.build.arch === "x86_64" ? [["x32", 0x4000_0000 | 39]] as Probe[] : [];
  const got = await probed([
    ["socket unix", "socket", 1, 1, 0],
    ["socket inet", "socket", 2, 1, 0],
    ["socket routes", "socket", 16, 3, 0],
    ["socket audit", "socket", 16, 3, 9],
    ["socket packet", "socket", 17, 3, 0],
    ["socket alg", "socket", 38, 5, 0],
    ["socket vsock", "socket", 40, 1, 0],
    ["clone of a user namespace", "clone", 0x1000_0000 | 17, 0, 0, 0, 0],
    ["clone of a network", "clone", 0x4000_0000 | 17, 0, 0, 0, 0],
    ["input for a terminal", "ioctl", 0, 0x5412, 0],
    ["the same with a high bit", "ioctl", 0, 0x1_0000_5412, 0],
    ["size of a terminal", "ioctl", 0, 0x5413, 0],
    ["personality", "personality", 0x040_0000],
    ["trace of the first process", "ptrace", 16, 1, 0, 0],
    ["trace of oneself", "ptrace", 0, 0, 0, 0],
    ["memory of the first process", "process_vm_writev", 1, 0, 0, 0, 0, 0],
    ...x32,
  ]);
  assertEquals(got, {
    "socket unix": "done",
    "socket inet": "done",
    "socket routes": "done",
    "socket audit": "EPERM",
    "socket packet": "EAFNOSUPPORT",
    "socket alg": "EAFNOSUPPORT",
    "socket vsock": "EAFNOSUPPORT",
    "clone of a user namespace": "EPERM",
    "clone of a network": "EPERM",
    "input for a terminal": "EPERM",
    "the same with a high bit": "EPERM",
    "size of a terminal": "ENOTTY",
    "personality": "EPERM",
    "trace of the first process": "EPERM",
    "trace of oneself": "done",
    "memory of the first process": "EPERM",
    ...(x32.length === 0 ? {} : { x32: "ENOSYS" }),
  });
});

const WITHOUT_PROFILE = existsSync(PROFILE) ? undefined : "podman's profile is not installed";
Deno.test({
  name: "the filter allows nothing that podman's default profile refuses" +
    (WITHOUT_PROFILE === undefined ? "" : ` (ignored: ${WITHOUT_PROFILE})`),
  ignore: WITHOUT_PROFILE !== undefined,
  async fn() {
    const profile = JSON.parse(await Deno.readTextFile(PROFILE));
    for (const [index, arch] of [[1, "amd64"], [2, "arm64"]] as const) {
      const allowed = allowedBy(profile, arch);
      const more = Object.entries(CALLS).filter(([name, row]) =>
        row[0] === "allow" && row[index] !== null && !allowed.has(name)
      );
      assertEquals(more.map(([name]) => name), []);
    }
  },
});
