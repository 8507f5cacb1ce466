import { assert, assertEquals } from "@std/assert";
import { dirname } from "@std/path/dirname";
import { controlGroup, findBounding, readBound } from "./control_groups.ts";

const BOUNDS = { name: "taskd-x", memory_bytes: 1 << 30, max_pids: 100 };

Deno.test("systemd makes a scope of the user's, or as root of the system's, with every bound", () => {
  const user = controlGroup("systemd", { ...BOUNDS, uid: 1_000 })!.words;
  assertEquals(user.slice(0, 5), ["/usr/bin/systemd-run", "--user", "--scope", "--quiet", "--unit=taskd-x"]);
  for (const bound of ["MemoryMax=1073741824", "MemorySwapMax=0", "TasksMax=132", "CPUWeight=50"]) {
    assert(user.includes(`--property=${bound}`), bound);
  }
  assertEquals(user.at(-1), "--");
  assert(controlGroup("systemd", { ...BOUNDS, uid: 0 })!.words.includes("--system"));
  assertEquals(controlGroup("none", { ...BOUNDS, uid: 0 }), undefined);
});

Deno.test("a group counts only where it has the bound that was asked for", async () => {
  const find = (stdout: string, uid: number) =>
    findBounding((_path, args) => {
      const probes = args.includes("/bin/sh");
      return Promise.resolve({ code: 0, stdout: probes ? stdout : "", stderr: "" });
    }, { name: "x", uid, systemd: true });
  assertEquals(await find("268435456\n", 1_000), "systemd");
  assertEquals(await find("max\n", 1_000), "none");
  assertEquals(await find("", 0), "none");
});

Deno.test("the bound of a group is read in either version of control groups, and in both at once", async () => {
  const root = await Deno.makeTempDir();
  const files = {
    "user.slice/x.scope/memory.max": "268435456",
    "memory/user.slice/x.scope/memory.limit_in_bytes": "1073741824",
  };
  const read = async (list: string) => {
    await Deno.writeTextFile(`${root}/list`, list);
    const [program, ...args] = readBound({ listed: `${root}/list`, root });
    const { code, stdout } = await new Deno.Command(program!, { args }).output();
    assertEquals(code, 0);
    return new TextDecoder().decode(stdout);
  };
  try {
    for (const [name, text] of Object.entries(files)) {
      await Deno.mkdir(dirname(`${root}/${name}`), { recursive: true });
      await Deno.writeTextFile(`${root}/${name}`, `${text}\n`);
    }
    assertEquals(await read("0::/user.slice/x.scope\n"), "268435456\n");
    assertEquals(await read("4:memory:/user.slice/x.scope\n1:cpu,cpuacct:/\n"), "1073741824\n");
    assertEquals(await read("4:memory:/user.slice/x.scope\n0::/other\n"), "1073741824\n");
    assertEquals(await read("0::/user.slice\n"), "");
  } finally {
    await Deno.remove(root, { recursive: true });
  }
});
