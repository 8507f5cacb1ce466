/**
 * Whether bubblewrap can hold a sandbox on this host: one is started as a task's is, and tries to get out. Where it
 * cannot be started, or is less than it is to be, the reason comes with what to do about it.
 */

import { TaskdError } from "../../../lib/errors.ts";
import { sanitizeLine } from "../../../lib/text/sanitize.ts";
import { AGENT_ID } from "../agent_user.ts";
import type { AskProgram, ProgramOutput } from "../host_programs.ts";
import { versionOf } from "./bubblewrap_runtime.ts";
import { type Bounding, findBounding } from "./control_groups.ts";
import { EMPTY_VIEW } from "./host_view.ts";
import probe from "./probe.sh" with { type: "text" };
import type { FilterArch } from "./seccomp_filter.ts";
import { startCommand } from "./start_script.ts";

/** The first that has --disable-userns. */
const MIN_VERSION = [0, 8] as const;
const MEMORY_BYTES = 64 << 20;
/** Fewer than the probe tries to have at once. */
const MAX_PIDS = 24;
/** bwrap's first process, the probe and what it just runs. */
const FEW_PROCESSES = 12;

export interface ExamineOptions {
  /** The bwrap program, absolute. */
  path: string;
  ask: AskProgram;
  uid: number;
  /** Whether systemd may be asked for control groups. */
  systemd: boolean;
  /** Distinguishes what it makes from all else. */
  id: string;
}

export interface Examined {
  works: boolean;
  version?: string;
  /** What bounds sandboxes as a whole. */
  bounding?: Bounding;
  /** Why it does not work. */
  why?: string;
  remedy?: string;
}

export async function examineBubblewrap(options: ExamineOptions): Promise<Examined> {
  const { path, ask, uid, systemd, id } = options;
  const arch = Deno.build.arch;
  if (Deno.build.os !== "linux" || arch !== "x86_64" && arch !== "aarch64") {
    return { works: false, why: "it is for Linux on x86_64 and arm64", remedy: OTHER_RUNTIME };
  }
  const version = versionOf((await ask(path, ["--version"])).stdout);
  if (version === undefined) return { works: false, why: `${path} prints no version`, remedy: INSTALL };
  if (isOlder(version)) {
    const why = `it is older than ${MIN_VERSION.join(".")}, which can refuse further namespaces`;
    return { works: false, version, why, remedy: "Install a newer one, such as that of the distribution's backports" };
  }
  const answer = await tryOut(options, arch);
  const failure = answer.code === 0 ? undefined : failureOf(answer);
  if (failure !== undefined) return { works: false, version, ...failure };
  const open = unheld(answer.stdout);
  if (open.length > 0) {
    const why = `a sandbox of it is not closed on this host: ${open.join(", ")}`;
    return {
      works: false,
      version,
      why,
      remedy: open.some((name) => name.startsWith("bomb")) ? OLD_KERNEL : OTHER_RUNTIME,
    };
  }
  const bounding = await findBounding(ask, { name: `taskd-probe-${id}`, uid, systemd });
  return { works: true, version, bounding };
}

/** What to do where there is none. */
export const INSTALL = "Install it: apt-get install bubblewrap";
const OTHER_RUNTIME = "Use another runtime: podman, docker, or deno for the built-in agent";
const OLD_KERNEL = "Use Linux 5.14 or newer, which counts a sandbox's processes by themselves";

function isOlder(version: string): boolean {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  return major < MIN_VERSION[0] || major === MIN_VERSION[0] && minor < MIN_VERSION[1];
}

async function tryOut({ path, ask, uid, id }: ExamineOptions, arch: FilterArch): Promise<ProgramOutput> {
  const { program, args, stdin } = startCommand({
    bwrap: path,
    uid,
    arch,
    order: { workload: { env: {}, mounts: [] }, memory_bytes: MEMORY_BYTES, view: EMPTY_VIEW, deno_path: "" },
    command: ["/bin/sh", "-c", probe],
    max_pids: MAX_PIDS,
    process_bytes: MEMORY_BYTES,
    owner: id,
    task_id: "0".repeat(32),
  });
  try {
    return await ask(program, args, stdin);
  } catch (error) {
    if (!(error instanceof TaskdError)) throw error;
    return { code: 1, stdout: "", stderr: error.message };
  }
}

/** What each line of the probe has to say. */
const EXPECTED: Readonly<Record<string, RegExp>> = {
  "Uid:": new RegExp(`^${AGENT_ID}$`),
  "CapInh:": /^0+$/,
  "CapPrm:": /^0+$/,
  "CapEff:": /^0+$/,
  "CapBnd:": /^0+$/,
  "CapAmb:": /^0+$/,
  "NoNewPrivs:": /^1$/,
  "Seccomp:": /^2$/,
  interfaces: /^lo$/,
  namespace: /^refused$/,
  first: /^refused$/,
  filter: /^refused$/,
  writable: /^$/,
  seen: /^$/,
  processes: new RegExp(`^(?:${Array.from({ length: FEW_PROCESSES }, (_, index) => index + 1).join("|")})$`),
  bomb: /^refused$/,
  end: /^$/,
};

/** What of a probe's lines is not as it is to be: name and result; what is missing too. */
export function unheld(stdout: string): string[] {
  const got = new Map<string, string>();
  for (const line of stdout.split("\n")) {
    const [, name = "", result = ""] = /^(\S+) ?(.*?) *$/.exec(line) ?? [];
    if (name !== "") got.set(name, result);
  }
  const wrong = Object.entries(EXPECTED).filter(([name, expected]) => !expected.test(got.get(name) ?? "absent"));
  const more = [...got].filter(([name]) => !Object.hasOwn(EXPECTED, name));
  return [...wrong.map(([name]) => [name, got.get(name) ?? "not tried"]), ...more]
    .map((row) => sanitizeLine(row.join(" ").replace(": ", " ")).slice(0, 200));
}

export const APPARMOR_PROFILE = "abi <abi/4.0>, include <tunables/global> " +
  "profile bwrap /usr/bin/bwrap flags=(unconfined) { userns, }";

/** What programs complain about where a host does not allow it, and what to do. */
const REFUSALS: readonly { said: RegExp; why: string; remedy: string }[] = [
  {
    said: /max_user_namespaces|nesting depth|ENOSPC|No space left on device/i,
    why: "the kernel gives no user namespaces: user.max_user_namespaces is too small",
    remedy: "As root: sysctl -w user.max_user_namespaces=15000",
  },
  {
    said: /setting up uid map: Permission denied|RTM_NEWADDR|RTM_NEWLINK|loopback/i,
    why: "AppArmor keeps bubblewrap from using its namespace",
    remedy:
      `As root, write into /etc/apparmor.d/bwrap: ${APPARMOR_PROFILE}; then: apparmor_parser -r /etc/apparmor.d/bwrap`,
  },
  {
    said: /Failed to make \/ slave|pivot_root|(?:^|\n)(?:unshare|mount): |nothing can be mounted/i,
    why: "a container around taskd refuses mounts",
    remedy:
      "Run taskd on the host; or start the container with --security-opt seccomp=unconfined and, as root in it, " +
      "--cap-add SYS_ADMIN",
  },
  {
    said: /No permissions to creat|namespace failed|clone|Operation not permitted/i,
    why: "unprivileged users may not make namespaces",
    remedy: "As root: sysctl -w kernel.unprivileged_userns_clone=1; in a container, start it with " +
      "--security-opt seccomp=unconfined",
  },
  {
    said: /Unknown option/i,
    why: "it does not know an option that sandboxes need",
    remedy: "Install bubblewrap 0.8 or newer",
  },
  {
    said: /cannot start \/bin\/bash|No such file or directory/i,
    why: "a program is missing that starts sandboxes",
    remedy: "Install bash, coreutils, mount and util-linux",
  },
];

/** Why no sandbox could be started. */
export function failureOf({ code, stderr }: ProgramOutput): { why: string; remedy: string } {
  const known = REFUSALS.find(({ said }) => said.test(stderr));
  const last = stderr.trim().split("\n").findLast((line) => line.trim() !== "") ?? `it ended with ${code}`;
  const said = sanitizeLine(last).slice(0, 200);
  if (known === undefined) return { why: `no sandbox can be started: ${said}`, remedy: OTHER_RUNTIME };
  return { why: `${known.why} (${said})`, remedy: known.remedy };
}
