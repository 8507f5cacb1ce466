import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { systemClock } from "../../lib/clock.ts";
import { writeProgram } from "../../tests/support/programs.ts";
import { diskMeter } from "./disk_count.ts";

const MIB = 2 ** 20;
const { signal } = new AbortController();

/** A folder of its own, and the count of what is in it. */
async function counted(fill: (root: string) => Promise<unknown>, folders: string[] = [""]) {
  const root = await Deno.makeTempDir({ prefix: "taskd-disk-" });
  try {
    await fill(root);
    return await diskMeter(systemClock).count(folders.map((name) => `${root}/${name}`), signal);
  } finally {
    await new Deno.Command("/bin/chmod", { args: ["-R", "u+rwx", root] }).output();
    await new Deno.Command("/bin/rm", { args: ["-rf", root] }).output();
  }
}

/** Less than 64 KiB beside the content: folders and names. */
function assertNear({ bytes, incomplete }: { bytes: number; incomplete?: string }, expected: number): void {
  assertEquals(incomplete, undefined);
  assert(Math.abs(bytes - expected) < 64 << 10, `${bytes} bytes instead of ${expected}`);
}

const written = (path: string, mib = 1) => Deno.writeFile(path, new Uint8Array(mib * MIB).fill(1));

Deno.test("blocks count and holes do not: a file of 2 TiB without content takes nothing", async () => {
  assertNear(
    await counted(async (root) => {
      await written(`${root}/full`, 2);
      for (const [name, size] of [["a", 2 * 2 ** 40], ["b", 6 * 2 ** 30]] as const) {
        await Deno.writeFile(`${root}/${name}`, new Uint8Array());
        await Deno.truncate(`${root}/${name}`, size);
      }
    }),
    2 * MIB,
  );
});

Deno.test("a file of several names counts once, also across folders, and links are not followed", async () => {
  assertNear(
    await counted(async (root) => {
      for (const name of ["work", "home", "outside"]) await Deno.mkdir(`${root}/${name}`);
      await written(`${root}/work/a`, 2);
      await Deno.link(`${root}/work/a`, `${root}/work/b`);
      await Deno.link(`${root}/work/a`, `${root}/home/c`);
      await written(`${root}/outside/large`, 4);
      await Deno.symlink("../outside", `${root}/work/out`);
      await Deno.symlink("..", `${root}/work/loop`);
      await Deno.symlink("/", `${root}/home/all`);
    }, ["work", "home", "databases"]),
    2 * MIB,
  );
});

Deno.test("what lies deeper than a path can name, below any name, counts as anything else", async () => {
  const { bytes, incomplete } = await counted(async (root) => {
    const script = `import os
for _ in range(300):
    os.mkdir(b"d" * 20)
    os.chdir(b"d" * 20)
with open(b"x\\t9\\n99\\t\\xe9", "wb") as file:
    file.write(os.urandom(${2 * MIB}))
`;
    const { code } = await new Deno.Command("/usr/bin/python3", { args: ["-c", script], cwd: root }).output();
    assertEquals(code, 0);
  });
  assertEquals(incomplete, undefined);
  assert(bytes >= 2 * MIB && bytes < 2 * MIB + 301 * 4_096 + (64 << 10), `${bytes} bytes`);
});

Deno.test("each of many files counts, and this process stays free for others meanwhile", async () => {
  let turns = 0;
  const timer = setInterval(() => turns++, 1);
  const { bytes, incomplete } = await counted(async (root) => {
    for (let name = 0; name < 3_000; name++) await Deno.writeFile(`${root}/${name}`, new Uint8Array(1_024).fill(1));
    turns = 0;
  });
  clearInterval(timer);
  assertEquals(incomplete, undefined);
  assert(bytes >= 3_000 * 1_024 && turns > 0, `${bytes} bytes, ${turns} turns`);
});

Deno.test("folders that are not there take nothing", async () => {
  assertEquals(await counted(() => Promise.resolve(), ["work", "home"]), { bytes: 0 });
});

Deno.test("a tree that takes too long to count is no whole count, and an abort ends it", async () => {
  const meter = diskMeter(systemClock, { deadline_ms: 0 });
  const { bytes, incomplete } = await meter.count(["/usr"], signal);
  assertEquals(bytes, 0);
  assertStringIncludes(incomplete ?? "", "no end after 0 s");
  const reason = new Error("over");
  await assertRejects(() => diskMeter(systemClock).count(["/usr"], AbortSignal.abort(reason)), Error, "over");
});

Deno.test("a folder that is closed to the broker makes the count incomplete, and the rest counts", async () => {
  const root = await Deno.makeTempDir({ prefix: "taskd-disk-" });
  try {
    await Deno.mkdir(`${root}/work/closed`, { recursive: true });
    await written(`${root}/work/open`);
    await Deno.chmod(`${root}/work/closed`, 0);
    // Root may read every folder: its du says what that of another user says.
    const closed = `du: cannot read directory '${root}/work/closed': Permission denied`;
    const du_path = Deno.uid() === 0 ? `${root}/du` : "/usr/bin/du";
    if (Deno.uid() === 0) {
      await writeProgram(du_path, `#!/bin/sh\n/usr/bin/du "$@"\necho "${closed}" >&2\nexit 1\n`);
    }
    const { bytes, incomplete } = await diskMeter(systemClock, { du_path }).count([`${root}/work`], signal);
    assertStringIncludes(incomplete ?? "", "Permission denied");
    assert(bytes >= MIB);
  } finally {
    await Deno.chmod(`${root}/work/closed`, 0o700);
    await Deno.remove(root, { recursive: true });
  }
});
