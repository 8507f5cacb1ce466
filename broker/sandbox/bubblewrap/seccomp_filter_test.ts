import { assert, assertEquals } from "@std/assert";
import { type FilterArch, seccompFilter, type SystemCalls } from "./seccomp_filter.ts";
import table from "./system_calls.json" with { type: "json" };

const CALLS = table as unknown as SystemCalls;
const ALLOW = 0x7fff_0000;
const [EPERM, ENOSYS, EAFNOSUPPORT] = [0x5_0001, 0x5_0026, 0x5_0061];
const AUDIT: Readonly<Record<FilterArch, number>> = { x86_64: 0xc000_003e, aarch64: 0xc000_00b7 };

/** Runs the filter as the kernel would, and returns its verdict. */
function verdict(arch: FilterArch, number: number, args: readonly number[] = [], audit = AUDIT[arch]): number {
  const filter = new DataView(seccompFilter(arch).buffer);
  const data = new DataView(new ArrayBuffer(64));
  data.setUint32(0, number, true);
  data.setUint32(4, audit, true);
  for (const [index, value] of args.entries()) data.setBigUint64(16 + 8 * index, BigInt(value), true);
  let loaded = 0;
  for (let at = 0;; at++) {
    const code = filter.getUint16(at * 8, true);
    const [yes, no] = [filter.getUint8(at * 8 + 2), filter.getUint8(at * 8 + 3)];
    const value = filter.getUint32(at * 8 + 4, true);
    if (code === 0x20) loaded = data.getUint32(value, true);
    else if (code === 0x06) return value;
    else {
      const holds = {
        0x15: loaded === value,
        0x25: loaded > value,
        0x35: loaded >= value,
        0x45: (loaded & value) !== 0,
      };
      at += holds[code as keyof typeof holds] ? yes : no;
    }
  }
}

const numberOf = (name: string, arch: FilterArch) => CALLS[name]![arch === "x86_64" ? 1 : 2]!;
const call = (name: string, ...args: number[]) => verdict("x86_64", numberOf(name, "x86_64"), args);

for (const arch of ["x86_64", "aarch64"] as const) {
  Deno.test(`the filter for ${arch} answers every call of the table by its rule, and what is newer as absent`, () => {
    const expected = { allow: ALLOW, refuse: EPERM, absent: ENOSYS };
    for (const [name, [rule]] of Object.entries(CALLS)) {
      const number = numberOf(name, arch);
      if (number === null || rule === "check") continue;
      assertEquals([name, verdict(arch, number)], [name, expected[rule]]);
    }
    assertEquals(verdict(arch, 999), ENOSYS);
    // What a program cannot do without.
    for (const name of ["read", "write", "execve", "mmap", "fstat", "newfstatat", "renameat", "futex", "exit_group"]) {
      if (numberOf(name, arch) !== null) assertEquals([name, verdict(arch, numberOf(name, arch))], [name, ALLOW]);
    }
    assert(seccompFilter(arch).length / 8 < 1_000, "the kernel takes 4096 instructions");
  });
}

Deno.test("every call of the rule check is decided by its arguments", () => {
  const undecided = Object.keys(CALLS).filter((name) => CALLS[name]![0] === "check")
    .filter((name) => verdict("x86_64", numberOf(name, "x86_64"), [7, 7, 7, 7]) === ENOSYS);
  assertEquals(undecided, []);
});

Deno.test("asynchronous I/O is absent, whose contexts all of the host share", () => {
  for (const arch of ["x86_64", "aarch64"] as const) {
    for (const name of ["io_setup", "io_submit", "io_getevents", "io_pgetevents", "io_cancel", "io_destroy"]) {
      assertEquals([name, verdict(arch, numberOf(name, arch))], [name, ENOSYS]);
    }
  }
});

Deno.test("clone makes threads and processes, and no namespaces", () => {
  assertEquals(call("clone", 0x3d_0f00), ALLOW);
  for (const flag of [0x0002_0000, 0x0200_0000, 0x0400_0000, 0x0800_0000, 0x1000_0000, 0x2000_0000, 0x4000_0000]) {
    assertEquals(call("clone", flag | 17), EPERM);
  }
});

Deno.test("sockets are those of Unix, IP and netlink's routes", () => {
  for (const family of [1, 2, 10]) assertEquals(call("socket", family, 1, 0), ALLOW);
  assertEquals(call("socket", 16, 3, 0), ALLOW);
  assertEquals(call("socket", 16, 3, 12), EPERM);
  for (const family of [17, 31, 38, 40]) assertEquals(call("socket", family, 1, 0), EAFNOSUPPORT);
  assertEquals([call("socketpair", 1), call("socketpair", 40)], [ALLOW, EAFNOSUPPORT]);
});

Deno.test("no file gets a set-id mode, by whichever call", () => {
  assertEquals([call("chmod", 0, 0o755), call("chmod", 0, 0o4755), call("chmod", 0, 0o2755)], [ALLOW, EPERM, EPERM]);
  assertEquals([call("fchmodat", 0, 0, 0o644), call("fchmodat", 0, 0, 0o6644)], [ALLOW, EPERM]);
  // The mode counts only where a file is made.
  assertEquals([call("openat", 0, 0, 0, 0o4755), call("openat", 0, 0, 0o100, 0o4755)], [ALLOW, EPERM]);
  assertEquals([call("openat", 0, 0, 0x40_0000, 0o4755), call("open", 0, 0o101, 0o644)], [EPERM, ALLOW]);
});

Deno.test("requests to a terminal are compared in the 32 bits that the kernel reads", () => {
  assertEquals([call("ioctl", 0, 0x5413), call("ioctl", 0, 0x5412), call("ioctl", 0, 0x541c)], [ALLOW, EPERM, EPERM]);
  assertEquals(call("ioctl", 0, 0x1_0000_5412), EPERM);
});

Deno.test("the first process of a sandbox cannot be traced, others can", () => {
  assertEquals([call("ptrace", 16, 1), call("ptrace", 16, 7), call("process_vm_writev", 1)], [EPERM, ALLOW, EPERM]);
});

Deno.test("no one takes the first process of a sandbox its time, nor that of a group or a user", () => {
  for (const name of ["sched_setscheduler", "sched_setparam", "sched_setaffinity", "sched_setattr"]) {
    assertEquals([name, call(name, 0), call(name, 7), call(name, 1)], [name, ALLOW, ALLOW, EPERM]);
  }
  assertEquals([call("setpriority", 0, 0, 19), call("setpriority", 0, 7, 19)], [ALLOW, ALLOW]);
  assertEquals([call("setpriority", 0, 1, 19), call("setpriority", 1, 0, 19), call("setpriority", 2, 0, 19)], [
    EPERM,
    EPERM,
    EPERM,
  ]);
});

Deno.test("another way into the kernel ends the process, x32 is absent", () => {
  assertEquals(verdict("x86_64", 20, [], 0x4000_0003), 0x8000_0000);
  assertEquals(verdict("x86_64", 0x4000_0000 | 39), ENOSYS);
});
