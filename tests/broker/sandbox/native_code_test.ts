import { assert, assertEquals, assertMatch } from "@std/assert";
import { systemClock } from "../../../lib/clock.ts";
import { lstatIfPresent } from "../../../lib/fs.ts";
import { helperEnv } from "../../../lib/helper_process.ts";
import { DenoRuntime } from "../../../broker/sandbox/deno_runtime.ts";
import { OWNER, Place } from "./_sandbox.ts";

const AGENT = import.meta.resolve("./_native_agent.ts");
const NOWHERE = "http://127.0.0.1:1";

type Got = Record<string, unknown>;

class Attacked extends Place {
  readonly cache_dir = `${this.root}/cache`;
  readonly outside = `${this.root}/outside`;

  constructor() {
    super();
    Deno.mkdirSync(this.outside);
    Deno.mkdirSync(this.cache_dir);
    Deno.writeTextFileSync(`${this.outside}/ledger`, "precious");
  }

  instruction(word: string): string {
    return JSON.stringify({ folder: this.work, outside: this.outside, word });
  }

  /** In the sandbox. */
  async confined(word: string): Promise<Got> {
    const runtime = new DenoRuntime({
      deno_path: Deno.execPath(),
      cache_dir: this.cache_dir,
      owner: OWNER,
      clock: systemClock,
      agent: { name: "agent", module: AGENT },
    });
    this.lines.length = 0;
    await (await runtime.start(this.spec(NOWHERE, { instruction: this.instruction(word) }))).wait();
    return got(this.lines.map(({ text }) => text));
  }

  /** With permission for the work folder and nothing else. */
  async permitted(word: string): Promise<Got> {
    const child = new Deno.Command(Deno.execPath(), {
      args: ["run", "--no-prompt", "--no-lock", "--no-config", "--allow-read=.", "--allow-write=.", AGENT],
      cwd: this.work,
      env: helperEnv(this.cache_dir),
      clearEnv: true,
      stdin: "piped",
      stdout: "piped",
      stderr: "inherit",
    }).spawn();
    const writer = child.stdin.getWriter();
    await writer.write(new TextEncoder().encode(JSON.stringify({ instruction: this.instruction(word) })));
    const { stdout } = await child.output();
    await writer.close().catch(() => {});
    return got(new TextDecoder().decode(stdout).trim().split("\n"));
  }

  ledger(): string | undefined {
    return [...Deno.readDirSync(this.outside)].map(({ name }) => name).join() || undefined;
  }

  /** What is kept for the storage of programs, with sizes. */
  stored(): string[] {
    const found: string[] = [];
    const visit = (folder: string) => {
      for (const { name, isDirectory } of Deno.readDirSync(folder)) {
        const path = `${folder}/${name}`;
        if (isDirectory) visit(path);
        else found.push(`${path} ${Deno.statSync(path).size}`);
      }
    };
    visit(`${this.cache_dir}/location_data`);
    return found.sort();
  }

  /** Bytes of what the runtime keeps of compiled modules, its log included. */
  compiled_bytes(): number {
    const names = ["v8_code_cache_v2", "v8_code_cache_v2-wal"].map((name) => `${this.cache_dir}/${name}`);
    return names.reduce((sum, path) => sum + (lstatIfPresent(path)?.size ?? 0), 0);
  }
}

function got(lines: string[]): Got {
  return Object.fromEntries(lines.map((line) => JSON.parse(line)).map(({ attack, got }) => [attack, got]));
}

Deno.test("native code that asks for no permission reaches no file from the agent's process", async () => {
  await using place = new Attacked();
  // Permissions alone do not hold it: the file is removed, the folder written, and each task reads what one left before.
  assertEquals(await place.permitted("first"), { journal: 0, spill: 20_000, storage: null, cache: null });
  assertEquals(place.ledger(), undefined);
  Deno.writeTextFileSync(`${place.outside}/ledger`, "precious");
  await Deno.remove(`${place.work}/hot.db`);
  assertEquals(await place.permitted("second"), { journal: 0, spill: 20_000, storage: "first", cache: "first" });
  Deno.writeTextFileSync(`${place.outside}/ledger`, "precious");
  await Deno.remove(`${place.work}/hot.db`);

  const [stored, compiled_bytes] = [place.stored(), place.compiled_bytes()];
  for (const word of ["third", "fourth"]) {
    const { journal, spill, storage, cache } = await place.confined(word);
    assertMatch(String(journal), /^refused: Requires read access/);
    assertMatch(String(spill), /^refused: (disk I\/O error|database or disk is full)/);
    assertMatch(String(storage), /^refused: Not a directory/);
    assertMatch(String(cache), /^refused: Failed to create cache storage directory/);
    assertEquals(Deno.readTextFileSync(`${place.outside}/ledger`), "precious");
    assertEquals([...Deno.readDirSync(place.work)].length, 0);
    assertEquals([...Deno.readDirSync(place.root)].map(({ name }) => name).sort(), ["cache", "outside", "work, it"]);
  }
  // The runtime, which may write nothing either, has not emptied the databases that other programs share.
  assert(compiled_bytes > 0 && place.compiled_bytes() >= compiled_bytes);
  assertEquals(place.stored(), stored);
});
