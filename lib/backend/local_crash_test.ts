import { assert, assertEquals, assertRejects } from "@std/assert";
import { whyNoStrace } from "../../tests/support/strace.ts";
import { unlockAndClose } from "../fs.ts";
import { BackendError } from "./backend.ts";
import { LocalBackend } from "./local.ts";

const MODULE = JSON.stringify(import.meta.resolve("./local.ts"));
const CONFIG = new URL(import.meta.resolve("../../deno.json")).pathname;

const NO_STRACE = await whyNoStrace();

async function inDirectory(fn: (directory: string) => Promise<void>): Promise<void> {
  const directory = await Deno.makeTempDir();
  try {
    await fn(directory);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
}

/** The command line of a process that opens the store as `backend` and runs `body`. */
async function script(directory: string, body: string): Promise<string[]> {
  const path = `${directory}/script-${crypto.randomUUID()}.ts`;
  await Deno.writeTextFile(
    path,
    `import { LocalBackend } from ${MODULE};
     const backend = await LocalBackend.open(${JSON.stringify(`${directory}/store`)}, {
       // The same names of temporary files each time.
       random: ${body.includes("fixed names") ? "(count) => new Uint8Array(count)" : "undefined"},
     });
     ${body}`,
  );
  return [Deno.execPath(), "run", "-A", "--no-prompt", `--config=${CONFIG}`, path];
}

async function run(command: string[]): Promise<string> {
  const { stdout, stderr } = await new Deno.Command(command[0]!, { args: command.slice(1) }).output();
  const output = new TextDecoder().decode(stdout);
  assert(output !== "", new TextDecoder().decode(stderr));
  return output;
}

/** Objects whose every byte is their number, of sizes on both sides of what is written in one piece. */
const WRITER = `
  const size = (n) => n % 2 === 0 ? 100 : 1_500_000;
  async function* streamed(n) {
    for (let at = 0; at < size(n); at += 250_000) {
      yield new Uint8Array(Math.min(250_000, size(n) - at)).fill(n);
    }
  }
  for (let n = 1; n < 250; n++) {
    await backend.put("dir/streamed", streamed(n));
    const { etag } = await backend.get("dir/replaced").catch(() => ({ etag: undefined }));
    const bytes = new Uint8Array(size(n)).fill(n);
    if (etag === undefined) await backend.create("dir/replaced", bytes);
    else await backend.replace("dir/replaced", bytes, etag);
    console.log(n);
  }
`;

Deno.test("SIGKILL of a writer leaves the old or the new object whole and frees its lock", () =>
  inDirectory(async (directory) => {
    const command = await script(directory, WRITER);
    for (let round = 0; round < 6; round++) {
      await Deno.remove(`${directory}/store`, { recursive: true }).catch(() => {});
      const child = new Deno.Command(command[0]!, { args: command.slice(1), stdout: "piped" }).spawn();
      let [acknowledged, killed] = [0, false];
      for await (const chunk of child.stdout.pipeThrough(new TextDecoderStream())) {
        acknowledged = Number(chunk.trimEnd().split("\n").at(-1));
        // Wherever it is by the time this arrives: the rounds differ by chance.
        if (acknowledged > round && !killed) {
          killed = true;
          child.kill("SIGKILL");
        }
      }
      await child.status;
      const backend = await LocalBackend.open(`${directory}/store`);
      for (const key of ["dir/streamed", "dir/replaced"]) {
        const { bytes, etag } = await backend.get(key);
        const number = bytes[0]!;
        assert(number >= acknowledged && number <= acknowledged + 1, `${number} after ${acknowledged}`);
        assertEquals(bytes.length, number % 2 === 0 ? 100 : 1_500_000);
        assert(bytes.every((byte) => byte === number), `a torn object: ${key}`);
        await backend.replace(key, new Uint8Array(1), etag);
      }
    }
  }));

Deno.test("processes that compare and swap one object lose no update", () =>
  inDirectory(async (directory) => {
    const backend = await LocalBackend.open(`${directory}/store`);
    const counter = async () => Number(new TextDecoder().decode((await backend.get("counter")).bytes));
    await backend.create("counter", new TextEncoder().encode("0"));
    const command = await script(
      directory,
      `let lost = 0;
       for (let done = 0; done < 40;) {
         const { bytes, etag } = await backend.get("counter");
         const next = new TextEncoder().encode(String(Number(new TextDecoder().decode(bytes)) + 1));
         try {
           await backend.replace("counter", next, etag);
           done++;
         } catch (error) {
           if (error.code !== "precondition_failed") throw error;
           lost++;
         }
       }
       console.log("lost " + lost);`,
    );
    const outputs = await Promise.all(Array.from({ length: 4 }, () => run(command)));
    assert(outputs.every((output) => output.startsWith("lost ")));
    assertEquals(await counter(), 160);
  }));

Deno.test("processes that create and delete in one directory get in each other's way nowhere", () =>
  inDirectory(async (directory) => {
    const command = await script(
      directory,
      `for (let i = 0; i < 60; i++) {
         const key = "deep/dir/" + Deno.pid;
         await backend.create(key, new Uint8Array(3));
         await backend.get(key);
         await backend.delete(key);
       }
       console.log("done");`,
    );
    assertEquals(await Promise.all([run(command), run(command), run(command)]), ["done\n", "done\n", "done\n"]);
  }));

Deno.test("a writer stopped with a lock makes others fail, not wait without end", () =>
  inDirectory(async (directory) => {
    let now = 0;
    const clock = { now: () => now, monotonic: () => now, sleep: (ms: number) => Promise.resolve(void (now += ms)) };
    const backend = await LocalBackend.open(directory, { clock });
    await backend.put("k", new Uint8Array(1));
    const { etag } = await backend.get("k");
    const held: Deno.FsFile[] = [];
    for (const { name } of Deno.readDirSync(`${directory}/.taskd/locks`)) {
      const file = await Deno.open(`${directory}/.taskd/locks/${name}`);
      assert(file.tryLockSync(true));
      held.push(file);
    }
    const stuck = await assertRejects(() => backend.replace("k", new Uint8Array(3), etag), BackendError);
    assertEquals(stuck.code, "unavailable");
    assert(now >= 10_000, `failed after ${now} ms`);
    await backend.create("new", new Uint8Array(1));
    held.forEach(unlockAndClose);
    await backend.replace("k", new Uint8Array(3), etag);
  }));

interface Traced {
  output: string;
  /** The calls on the store's files, in order, without process ids. */
  calls: string[];
}

async function traced(directory: string, body: string, ...options: string[]): Promise<Traced> {
  const log = `${directory}/trace`;
  const command = await script(directory, `/* fixed names */ ${body}`);
  const output = await run(["strace", "-f", "-y", "-qq", "-o", log, ...options, ...command]);
  const calls = (await Deno.readTextFile(log)).split("\n").map((line) => line.replace(/^\d+ +/, ""));
  return { output, calls };
}

Deno.test({
  name:
    `the bytes are fsynced before the object has its name, and the name before the answer unless that may revert${NO_STRACE}`,
  ignore: NO_STRACE !== "",
  fn: () =>
    inDirectory(async (directory) => {
      const body = `
        const mark = (what) => console.log("mark " + what);
        const etag = await backend.create("dir/new/k", new Uint8Array(10));
        mark("created");
        const second = await backend.replace("dir/new/k", new Uint8Array(11), etag);
        mark("replaced");
        await backend.replace("dir/new/k", new Uint8Array(12), second, { may_revert: true });
        mark("renewed");
        await backend.delete("dir/new/k");
        mark("deleted");
        async function* chunks() {
          for (let n = 0; n < 2; n++) yield new Uint8Array(10);
        }
        await backend.put("dir/new/s", chunks());
        mark("streamed");
        await backend.copy("dir/new/s", "dir/new/c");
        mark("copied");`;
      const traced_calls = "trace=fsync,fdatasync,link,linkat,rename,renameat,renameat2,unlink,unlinkat,rmdir,write";
      const { calls } = await traced(directory, body, "-e", traced_calls);
      const store = `${directory}/store`;
      const steps = calls.flatMap((call) => {
        if (/^(fsync|fdatasync)/.test(call)) return [`fsync ${/<([^>]*)>/.exec(call)?.[1]?.replace(store, "")}`];
        if (/^link/.test(call)) return ["link"];
        if (/^rename/.test(call)) return ["rename"];
        if (/^unlink/.test(call) && call.includes("/dir/new/k")) return ["unlink"];
        const mark = /"mark (\w+)/.exec(call)?.[1];
        return call.startsWith("write") && mark !== undefined ? [mark] : [];
      });
      const part = (from: string, to: string) => steps.slice(steps.indexOf(from) + 1, steps.indexOf(to));
      const temporary = `/.taskd/tmp/${"0".repeat(24)}`;
      const created = part("none", "created");
      assert(created.includes(`fsync ${directory}`), "the new store's own name is fsynced");
      // Directories that were removed with their last object are new ones.
      for (const [how, made] of [["link", created.slice(-5)], ["rename", part("deleted", "streamed")]] as const) {
        assertEquals(made.slice(0, 2), [`fsync ${temporary}`, how]);
        assertEquals(made.slice(2).sort(), ["fsync ", "fsync /dir", "fsync /dir/new"]);
      }
      assertEquals(part("streamed", "copied"), [`fsync ${temporary}`, "rename", "fsync /dir/new"]);
      assertEquals(part("created", "replaced"), [`fsync ${temporary}`, "rename", "fsync /dir/new"]);
      // Its bytes no later than any other's: else a crash could leave a name with nothing in it.
      assertEquals(part("replaced", "renewed"), [`fsync ${temporary}`, "rename"]);
      assertEquals(part("renewed", "deleted").filter((step) => step !== "fsync "), ["unlink"]);
      assert(part("renewed", "deleted").includes("fsync "), "the directory that stays is fsynced");
    }),
});

Deno.test({
  name: `a failing fsync of the bytes changes nothing; of the name, the outcome is ambiguous${NO_STRACE}`,
  ignore: NO_STRACE !== "",
  fn: () =>
    inDirectory(async (directory) => {
      const store = `${directory}/store`;
      const backend = await LocalBackend.open(store);
      await backend.put("dir/k", new Uint8Array(5));
      const body = `
        const attempt = (action) => action.then(() => "ok", (error) => error.code);
        const { etag } = await backend.get("dir/k");
        console.log([
          await attempt(backend.create("dir/new", new Uint8Array(1))),
          await attempt(backend.replace("dir/k", new Uint8Array(6), etag)),
          await attempt(backend.delete("dir/gone")),
        ].join());`;
      await backend.put("dir/gone", new Uint8Array(1));
      const fault = ["-e", "trace=fsync", "-e", "inject=fsync:error=EIO"];
      const bytes = await traced(directory, body, "-P", `${store}/.taskd/tmp/${"0".repeat(24)}`, ...fault);
      assertEquals(bytes.output, "unavailable,unavailable,ok\n");
      await backend.put("dir/gone", new Uint8Array(1));
      assertEquals((await backend.head("dir/k")).size, 5);
      assertEquals((await assertRejects(() => backend.head("dir/new"), BackendError)).code, "not_found");
      const name = await traced(directory, body, "-P", `${store}/dir`, ...fault);
      assertEquals(name.output, "ambiguous,ambiguous,ambiguous\n");
      assertEquals((await backend.head("dir/k")).size, 6);
      assertEquals((await backend.head("dir/new")).size, 1);
      assertEquals(Array.from(Deno.readDirSync(`${store}/.taskd/tmp`)), []);
    }),
});

Deno.test({
  name: `SIGKILL before any step of a write leaves whole objects and no lock${NO_STRACE}`,
  ignore: NO_STRACE !== "",
  fn: () =>
    inDirectory(async (directory) => {
      const store = `${directory}/store`;
      const body = `
        await backend.create("dir/new", new Uint8Array(9).fill(1));
        console.log("created");
        const { etag } = await backend.get("dir/k");
        await backend.replace("dir/k", new Uint8Array(9).fill(1), etag);
        console.log("replaced");`;
      const command = await script(directory, `/* fixed names */ ${body}`);
      const temporary = `${store}/.taskd/tmp/${"0".repeat(24)}`;
      const places = [`${store}/dir`, `${store}/dir/new`, `${store}/dir/k`, temporary].flatMap((path) => ["-P", path]);
      const seen = new Set<string>();
      // How often each step comes, as strace counts: by thread.
      const steps = { openat: 9, fsync: 2, "link,linkat": 1, "rename,renameat,renameat2": 1, "unlink,unlinkat": 1 };
      for (const [step, times] of Object.entries(steps)) {
        for (let when = 1; when <= times; when++) {
          const backend = await LocalBackend.open(store);
          await backend.put("dir/k", new Uint8Array(5));
          await backend.delete("dir/new").catch(() => {});
          await Deno.remove(temporary).catch(() => {});
          const args = ["-f", "-qq", "-o", "/dev/null", ...places, "-e", `trace=${step}`];
          args.push("-e", `inject=${step}:signal=KILL:when=${when}`, ...command);
          const { stdout } = await new Deno.Command("strace", { args }).output();
          const acknowledged = new TextDecoder().decode(stdout);
          const created = (await backend.get("dir/new").catch(() => undefined))?.bytes;
          const replaced = (await backend.get("dir/k")).bytes;
          if (created !== undefined) assertEquals(created, new Uint8Array(9).fill(1));
          if (replaced.length !== 5) assertEquals(replaced, new Uint8Array(9).fill(1));
          if (acknowledged.includes("created")) assert(created !== undefined);
          if (acknowledged.includes("replaced")) assertEquals(replaced.length, 9);
          await backend.replace("dir/k", new Uint8Array(1), (await backend.get("dir/k")).etag);
          seen.add(`${created?.length} ${replaced.length} ${acknowledged.trim().replace("\n", " ")}`);
        }
      }
      // The steps did land on all sides of both writes.
      for (const outcome of ["undefined 5 ", "9 5 ", "9 5 created", "9 9 created"]) {
        assert(seen.has(outcome), `no kill led to ${outcome}; there were ${[...seen].join(", ")}`);
      }
    }),
});
