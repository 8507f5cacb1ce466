import { assert, assertEquals } from "@std/assert";
import { textLines } from "../support/text_lines.ts";

const HOUSE = new URL("./house", import.meta.url).pathname;

/** Why no house can be made here, for a test's name. */
async function whyNoHouse(): Promise<string> {
  if (Deno.build.os !== "linux" || Deno.uid() !== 0) return " (ignored: not root on Linux)";
  const { success } = await new Deno.Command("unshare", { args: ["--mount", "--pid", "--fork", "true"] }).output();
  return success ? "" : " (ignored: namespaces may not be made)";
}

const ignored = await whyNoHouse();

function house(args: string[], command = [HOUSE]): Deno.Command {
  const [program, ...words] = [...command, ...args] as [string, ...string[]];
  // As from outside: the suite itself runs in one.
  return new Deno.Command(program, { args: words, env: { TASKD_HOUSE: "" }, stdin: "null", stdout: "piped" });
}

/** Whether a process runs with these words. */
function runs(words: string): boolean {
  return Array.from(Deno.readDirSync("/proc")).some(({ name }) => {
    try {
      return Deno.readTextFileSync(`/proc/${name}/cmdline`).replaceAll("\0", " ").startsWith(words);
    } catch {
      return false;
    }
  });
}

Deno.test({
  name: `a run that is killed leaves no process, mount or loop device${ignored}`,
  ignore: ignored !== "",
  fn: async () => {
    const directory = await Deno.makeTempDir();
    const image = `${directory}/image`;
    const words = `sleep 1000.${Deno.pid}`;
    const script = `truncate -s 16M ${image} && mkfs.ext4 -q ${image} && mkdir ${directory}/disk &&
      mount -o loop ${image} ${directory}/disk && touch ${directory}/disk/mark && { setsid ${words} & } &&
      echo begun && wait`;
    const child = house(["bash", "-c", script]).spawn();
    try {
      for await (const line of textLines(child.stdout)) {
        assertEquals(line, "begun");
        while (!runs(words)) await new Promise((done) => setTimeout(done, 5));
        const attached = await new Deno.Command("losetup", { args: ["-j", image] }).output();
        assert(attached.stdout.length > 0, "the disk is on a loop device");
        assert(!Deno.readTextFileSync("/proc/self/mountinfo").includes(directory), "the mount is the house's alone");
        child.kill("SIGKILL");
      }
      await child.status;
      while (runs(words)) await new Promise((done) => setTimeout(done, 5));
      const attached = async () => (await new Deno.Command("losetup", { args: ["-j", image] }).output()).stdout.length;
      // The kernel detaches it after the last process of the house has gone.
      while (await attached() > 0) await new Promise((done) => setTimeout(done, 5));
      assertEquals([...Deno.readDirSync(`${directory}/disk`)], []);
    } finally {
      await Deno.remove(directory, { recursive: true });
    }
  },
});

Deno.test({
  name: `a house gives its command what it needs: a shared root, its words and its exit code${ignored}`,
  ignore: ignored !== "",
  fn: async () => {
    const { code, stdout } = await house(["bash", "-c", 'cat /proc/self/mountinfo; echo "$0"; exit 7', "a  word"])
      .output();
    const text = new TextDecoder().decode(stdout);
    assertEquals(code, 7);
    assert(/^\d+ \d+ \S+ \/ \/ \S+ shared:/m.test(text), text);
    assert(text.endsWith("\na  word\n"), text);
  },
});

Deno.test({
  name: `where a house may not be made, the command runs as it is${ignored}`,
  ignore: ignored !== "",
  fn: async () => {
    const unprivileged = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all"];
    const { code, stdout } = await house(["bash", "-c", "id -u; exit 3"], [...unprivileged, HOUSE]).output();
    assertEquals([code, new TextDecoder().decode(stdout)], [3, "65534\n"]);
  },
});

Deno.test({
  name: `what a run leaves is named: a process and a mount, and nothing that was there before${ignored}`,
  ignore: ignored !== "",
  fn: async () => {
    const directory = await Deno.makeTempDir();
    const script = `
      import { leftovers, machineState } from "${new URL("./_leftovers.ts", import.meta.url)}";
      const before = machineState();
      new Deno.Command("sleep", { args: ["1000"], stdin: "null" }).spawn();
      await new Deno.Command("mount", { args: ["-t", "tmpfs", "tmpfs", "${directory}"] }).output();
      let left = [];
      while (!left.some((line) => line.endsWith("sleep 1000"))) left = leftovers(before);
      console.log(left.join("\\n"));
      Deno.exit();`;
    const { stdout, code } = await house([Deno.execPath(), "eval", "--no-config", script]).output();
    const lines = new TextDecoder().decode(stdout).trim().split("\n");
    assertEquals([code, lines[0], lines.length], [0, `mount ${directory}`, 2], lines.join("\n"));
    assert(/^process \d+: \S*sleep 1000$/.test(lines[1]!), lines[1]);
    await Deno.remove(directory);
  },
});
