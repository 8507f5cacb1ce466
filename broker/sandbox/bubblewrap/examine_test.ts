import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { examineBubblewrap, type ExamineOptions, failureOf, unheld } from "./examine.ts";

const HELD = `Uid: 1000
CapInh: 0000000000000000
CapPrm: 0000000000000000
CapEff: 0000000000000000
CapBnd: 0000000000000000
CapAmb: 0000000000000000
NoNewPrivs: 1
Seccomp: 2
interfaces lo
namespace refused
first refused
filter refused
writable
seen
processes 4
bomb refused
end
`;

const examine = (answers: { version?: string; probe?: { code: number; stdout: string; stderr: string } }) => {
  const ask: ExamineOptions["ask"] = (_path, args) => {
    if (args[0] === "--version") {
      return Promise.resolve({ code: 0, stdout: `bubblewrap ${answers.version ?? "0.8.0"}\n`, stderr: "" });
    }
    if (args.join(" ").includes("--taskd-sandbox=")) {
      return Promise.resolve(answers.probe ?? { code: 0, stdout: HELD, stderr: "" });
    }
    return Promise.resolve({ code: 1, stdout: "", stderr: "no control groups" });
  };
  return examineBubblewrap({ path: "/usr/bin/bwrap", ask, uid: 1_000, systemd: true, id: "00" });
};

Deno.test("bubblewrap works where a sandbox is closed, and says what bounds it", async () => {
  assertEquals(await examine({}), { works: true, version: "0.8.0", bounding: "none" });
});

Deno.test("a version that cannot refuse further namespaces is not used", async () => {
  const { works, why, remedy } = await examine({ version: "0.6.1" });
  assertEquals(works, false);
  assertStringIncludes(why!, "older than 0.8");
  assertStringIncludes(remedy!, "newer");
  assert((await examine({ version: "1.0.0" })).works);
});

Deno.test("a sandbox that is less than it is to be is not used, and what is open is named", async () => {
  for (
    const [line, open, name] of [
      ["Seccomp: 2", "Seccomp: 0", "Seccomp 0"],
      ["CapEff: 0000000000000000", "CapEff: 0000000000000400", "CapEff 0000000000000400"],
      ["interfaces lo", "interfaces lo eth0", "interfaces lo eth0"],
      ["filter refused", "filter done", "filter done"],
      ["writable", "writable /proc/sys/kernel/core_pattern", "writable /proc/sys/kernel/core_pattern"],
      ["seen", "seen /root", "seen /root"],
      ["processes 4", "processes 240", "processes 240"],
      ["bomb refused", "bomb done", "bomb done"],
      ["end\n", "", "end not tried"],
      ["seen\n", "seen\nunwritable /tmp\n", "unwritable /tmp"],
    ] as const
  ) {
    const stdout = HELD.replace(line, open);
    assertEquals(unheld(stdout), [name]);
    const { works, why } = await examine({ probe: { code: 0, stdout, stderr: "" } });
    assertEquals(works, false);
    assertStringIncludes(why!, name);
  }
  assert(unheld("").length > 10);
});

Deno.test("each refusal of a host has its remedy, and the guide has the refusals of its list", async () => {
  const guide = await Deno.readTextFile(new URL("../../../docs/how-to/bubblewrap.md", import.meta.url));
  const listed = [...guide.matchAll(/^- `((?:the kernel|unprivileged|AppArmor|a container)[^`]*)`/gm)];
  assertEquals(listed.length, 4);
  const given = new Set<string>();
  for (
    const [stderr, remedy] of [
      [
        "bwrap: Creating new namespace failed: nesting depth or /proc/sys/user/max_*_namespaces exceeded (ENOSPC)",
        "max_user",
      ],
      ["bwrap: setting up uid map: Permission denied", "/etc/apparmor.d/bwrap"],
      ["bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted", "/etc/apparmor.d/bwrap"],
      [
        "bwrap: No permissions to create new namespace, likely because the kernel does not allow",
        "unprivileged_userns",
      ],
      ["bwrap: pivot_root: Operation not permitted", "seccomp=unconfined"],
      ["unshare: unshare failed: Operation not permitted", "SYS_ADMIN"],
      ["bwrap: Unknown option --disable-userns", "0.8"],
    ] as const
  ) {
    const failure = failureOf({ code: 1, stdout: "", stderr });
    assertStringIncludes(failure.remedy, remedy);
    given.add(failure.why.replace(/(?::.*)? \(.*$/, ""));
  }
  assertEquals(listed.filter(([, why]) => !given.has(why!)), []);
  const { why } = failureOf({ code: 1, stdout: "", stderr: "bwrap: something \u001b[31mnew" });
  assertEquals(why, "no sandbox can be started: bwrap: something \\x1b[31mnew");
});
