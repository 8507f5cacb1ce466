/**
 * The filter of a sandbox's system calls, as the kernel takes it: classic BPF, put together without a library.
 *
 * A call passes only if `system_calls.json` lists it as allowed, or if it is one of those that are decided here by their
 * arguments. Anything else is refused: with EPERM where the table knows the call, with ENOSYS where it does not, as a
 * kernel without it would. A call by another way into the kernel (32-bit programs) ends the process.
 *
 * Format: linux/filter.h and linux/seccomp.h; the table is written by tests/tools/system_calls.ts.
 */

import table from "./system_calls.json" with { type: "json" };

/** What becomes of a call: `check` is decided by its arguments, `absent` answers as if the kernel did not have it. */
export type CallRule = "allow" | "refuse" | "check" | "absent";
/** Rule, and number on x86_64 and on arm64; null where it does not exist. */
export type SystemCalls = Readonly<Record<string, readonly [CallRule, number | null, number | null]>>;
export type FilterArch = "x86_64" | "aarch64";

const CALLS = table as unknown as SystemCalls;

// Of linux/bpf_common.h: load a word of the data; jumps by a constant; the verdict.
const LOAD = 0x20;
const JUMP_EQUAL = 0x15;
const JUMP_GREATER = 0x25;
const JUMP_GREATER_OR_EQUAL = 0x35;
const JUMP_ANY_BIT = 0x45;
const RETURN = 0x06;

// Of linux/seccomp.h.
const KILL_PROCESS = 0x8000_0000;
const ERRNO = 0x0005_0000;
const ALLOW = 0x7fff_0000;
const EPERM = ERRNO | 1;
const ENOSYS = ERRNO | 38;
const EAFNOSUPPORT = ERRNO | 97;

/** Of linux/audit.h: the machine, 64 bits, little-endian. */
const AUDIT_ARCH: Readonly<Record<FilterArch, number>> = { x86_64: 0xc000_003e, aarch64: 0xc000_00b7 };
/** Numbers from here on are x32's, a second set of calls on x86_64. */
const X32_BIT = 0x4000_0000;

/** CLONE_NEW* of linux/sched.h. */
const NEW_NAMESPACES = 0x7e02_0000;
/** Input put into a terminal, and the console's own menu: asm-generic/ioctls.h. */
const TERMINAL_REQUESTS = [0x5412, 0x541c];
/** Personalities that the profile of podman allows. */
const PERSONALITIES = [0, 8, 0x2_0000, 0x2_0008, 0xffff_ffff];
/** S_ISUID and S_ISGID. */
const SET_ID_MODES = 0o6000;
/** O_CREAT and __O_TMPFILE: only then there is a mode. */
const MAKES_FILE = 0x40_0040;
const [AF_UNIX, AF_INET, AF_INET6, AF_NETLINK] = [1, 2, 10, 16];
const NETLINK_ROUTE = 0;
/** Of linux/resource.h. */
const PRIO_PROCESS = 0;
/**
 * The first process of the namespace: stopped by a tracer, or given no time by the scheduler, it would never report the
 * end, nor end the others with itself.
 */
const FIRST_PROCESS = 1;

type Instruction = readonly [code: number, if_true: number, if_false: number, value: number];

/** Offsets in struct seccomp_data; arguments are 64 bits wide, of which the lower 32 come first. */
const NUMBER_AT = 0;
const ARCH_AT = 4;
const argumentAt = (index: number) => 16 + 8 * index;

const answer = (verdict: number): Instruction => [RETURN, 0, 0, verdict];
const load = (offset: number): Instruction => [LOAD, 0, 0, offset];

/** Answers when the loaded word is `value`, else goes on. */
const when = (value: number, verdict: number): Instruction[] => [[JUMP_EQUAL, 0, 1, value], answer(verdict)];
const whenAnyBit = (bits: number, verdict: number): Instruction[] => [[JUMP_ANY_BIT, 0, 1, bits], answer(verdict)];

const noSetId = (mode: number): Instruction[] => [
  load(argumentAt(mode)),
  ...whenAnyBit(SET_ID_MODES, EPERM),
  answer(ALLOW),
];
const opens = (flags: number): Instruction[] => [
  load(argumentAt(flags)),
  [JUMP_ANY_BIT, 1, 0, MAKES_FILE],
  answer(ALLOW),
  ...noSetId(flags + 1),
];
const notTheFirst = (pid: number): Instruction[] => [
  load(argumentAt(pid)),
  ...when(FIRST_PROCESS, EPERM),
  answer(ALLOW),
];

/** What decides each call of the rule `check`; every one ends in an answer. */
const CHECKS: Readonly<Record<string, readonly Instruction[]>> = {
  clone: [load(argumentAt(0)), ...whenAnyBit(NEW_NAMESPACES, EPERM), answer(ALLOW)],
  // In 32 bits, as the kernel compares them.
  ioctl: [
    load(argumentAt(1)),
    ...TERMINAL_REQUESTS.flatMap((request) => when(request, EPERM)),
    answer(ALLOW),
  ],
  personality: [load(argumentAt(0)), ...PERSONALITIES.flatMap((value) => when(value, ALLOW)), answer(EPERM)],
  chmod: noSetId(1),
  fchmod: noSetId(1),
  fchmodat: noSetId(2),
  creat: noSetId(1),
  mknod: noSetId(1),
  mknodat: noSetId(2),
  open: opens(1),
  openat: opens(2),
  ptrace: notTheFirst(1),
  process_vm_readv: notTheFirst(0),
  process_vm_writev: notTheFirst(0),
  sched_setaffinity: notTheFirst(0),
  sched_setattr: notTheFirst(0),
  sched_setparam: notTheFirst(0),
  sched_setscheduler: notTheFirst(0),
  // Not of groups or users either: it may be one of theirs.
  setpriority: [load(argumentAt(0)), [JUMP_EQUAL, 1, 0, PRIO_PROCESS], answer(EPERM), ...notTheFirst(1)],
  // A network namespace does not bind the other families, such as vsock.
  socket: [
    load(argumentAt(0)),
    ...[AF_UNIX, AF_INET, AF_INET6].flatMap((family) => when(family!, ALLOW)),
    [JUMP_EQUAL, 1, 0, AF_NETLINK!],
    answer(EAFNOSUPPORT),
    load(argumentAt(2)),
    ...when(NETLINK_ROUTE, ALLOW),
    answer(EPERM),
  ],
  socketpair: [load(argumentAt(0)), ...when(AF_UNIX!, ALLOW), answer(EAFNOSUPPORT)],
};

/** The filter's instructions, 8 bytes each. */
export function seccompFilter(arch: FilterArch): Uint8Array<ArrayBuffer> {
  const instructions: Instruction[] = [
    load(ARCH_AT),
    [JUMP_EQUAL, 1, 0, AUDIT_ARCH[arch]],
    answer(KILL_PROCESS),
    load(NUMBER_AT),
  ];
  if (arch === "x86_64") instructions.push([JUMP_GREATER_OR_EQUAL, 0, 1, X32_BIT], answer(ENOSYS));
  for (const [name, check] of Object.entries(CHECKS)) {
    const number = numberOf(name, arch);
    if (number !== null) instructions.push([JUMP_EQUAL, 0, check.length, number], ...check);
  }
  for (const [rule, verdict] of [["allow", ALLOW], ["refuse", EPERM]] as const) {
    for (const range of ranges(numbersOf(rule, arch))) instructions.push(...whenIn(range, verdict));
  }
  instructions.push(answer(ENOSYS));
  return encode(instructions);
}

function numberOf(name: string, arch: FilterArch): number | null {
  const [, x86_64, arm64] = CALLS[name] ?? ["check", null, null];
  return arch === "x86_64" ? x86_64 : arm64;
}

function numbersOf(rule: CallRule, arch: FilterArch): number[] {
  return Object.keys(CALLS).filter((name) => CALLS[name]![0] === rule)
    .flatMap((name) => numberOf(name, arch) ?? []).sort((a, b) => a - b);
}

type Range = [first: number, last: number];

function ranges(numbers: readonly number[]): Range[] {
  const found: Range[] = [];
  for (const number of numbers) {
    const last = found.at(-1);
    if (last !== undefined && last[1] + 1 === number) last[1] = number;
    else found.push([number, number]);
  }
  return found;
}

function whenIn([first, last]: Range, verdict: number): Instruction[] {
  if (first === last) return when(first, verdict);
  return [[JUMP_GREATER_OR_EQUAL, 0, 2, first], [JUMP_GREATER, 1, 0, last], answer(verdict)];
}

/** struct sock_filter, in the byte order of both machines. */
function encode(instructions: readonly Instruction[]): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(instructions.length * 8);
  const view = new DataView(bytes.buffer);
  for (const [index, [code, if_true, if_false, value]] of instructions.entries()) {
    view.setUint16(index * 8, code, true);
    view.setUint8(index * 8 + 2, if_true);
    view.setUint8(index * 8 + 3, if_false);
    view.setUint32(index * 8 + 4, value, true);
  }
  return bytes;
}
