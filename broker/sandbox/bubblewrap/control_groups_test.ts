import { assert, assertEquals } from "@std/assert";
import { controlGroup, findBounding } from "./control_groups.ts";

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
