import { existsSync } from "@std/fs/exists";
import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { TaskdError } from "../../lib/errors.ts";
import { AUTO_ORDER } from "../../broker/sandbox/installed_runtimes.ts";
import { SYSTEMD_UNIT, unitPath, unitText } from "./units.ts";

const HOSTILE = ["/bin/true", "a b", 'quote"d', "back\\slash", "100%", "$HOME", "${X}", "<&>", "é", "'single'"];
const OPTIONS = { command: HOSTILE, env: { TMPDIR: "/tmp/a b" }, runtime: "podman" as const, stop_timeout_s: 60 };

const hasSystemd = existsSync("/usr/bin/systemd-analyze");

for (const runtime of AUTO_ORDER) {
  Deno.test({
    name: `systemd accepts the unit for ${runtime}${hasSystemd ? "" : " (systemd-analyze is not installed)"}`,
    ignore: !hasSystemd,
    async fn() {
      const folder = await Deno.makeTempDir();
      try {
        const path = `${folder}/${SYSTEMD_UNIT}`;
        await Deno.writeTextFile(path, unitText("systemd", { ...OPTIONS, runtime }));
        const { code, stdout, stderr } = await new Deno.Command("/usr/bin/systemd-analyze", {
          args: ["verify", "--user", "--man=no", path],
          env: { XDG_RUNTIME_DIR: folder },
        }).output();
        const said = new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr);
        assertEquals(said.split("\n").filter((line) => line.includes(SYSTEMD_UNIT)), []);
        assertEquals(code, 0, said);
      } finally {
        await Deno.remove(folder, { recursive: true });
      }
    },
  });
}

Deno.test("a unit for rootless podman has no line that implies NoNewPrivileges", () => {
  const text = unitText("systemd", OPTIONS);
  const breaking = /^(NoNewPrivileges|SystemCall|Restrict|Lock|Protect|Private|MemoryDeny|Dynamic|CapabilityBounding)/m;
  assert(!breaking.test(text), text);
  assertStringIncludes(unitText("systemd", { ...OPTIONS, runtime: "deno" }), "NoNewPrivileges=yes");
});

Deno.test("a launchd agent parses back to the words of its command", async () => {
  const folder = await Deno.makeTempDir();
  try {
    await Deno.writeTextFile(`${folder}/agent.plist`, unitText("launchd", OPTIONS));
    const script = "import plistlib,json,sys; print(json.dumps(plistlib.load(open(sys.argv[1],'rb'))))";
    const { code, stdout, stderr } = await new Deno.Command("python3", {
      args: ["-c", script, `${folder}/agent.plist`],
    }).output();
    assertEquals(code, 0, new TextDecoder().decode(stderr));
    const plist = JSON.parse(new TextDecoder().decode(stdout));
    assertEquals(plist.ProgramArguments, HOSTILE);
    assertEquals(plist.EnvironmentVariables, { TMPDIR: "/tmp/a b" });
    assertEquals(plist.KeepAlive, { SuccessfulExit: false });
    assertEquals(plist.Umask, 0o77);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("a word with a line break is refused in a unit", () => {
  for (const manager of ["systemd", "launchd"] as const) {
    const options = { ...OPTIONS, env: { TMPDIR: "/tmp\nExecStartPre=/bin/evil" } };
    assertThrows(() => unitText(manager, options), TaskdError, "control character");
  }
});

Deno.test("units are in the user's own directories", () => {
  assertEquals(unitPath("systemd", "/home/me"), "/home/me/.config/systemd/user/taskd-broker.service");
  assertEquals(unitPath("launchd", "/Users/me"), "/Users/me/Library/LaunchAgents/dev.taskd.broker.plist");
});
