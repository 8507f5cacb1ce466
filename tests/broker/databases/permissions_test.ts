import { assertEquals } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import { DenoRuntime } from "../../../broker/sandbox/deno_runtime.ts";
import { systemClock } from "../../../lib/clock.ts";
import { SHOP, sqlite } from "./_bench.ts";

Deno.test("an agent that was taken over has its copies of databases, and nothing beside them", async () => {
  const root = await Deno.makeTempDir();
  try {
    for (const folder of ["work", "databases", "git"]) Deno.mkdirSync(`${root}/${folder}`);
    Deno.writeTextFileSync(`${root}/git/secret`, "secret");
    sqlite(`${root}/databases/shop.db`, SHOP);
    sqlite(`${root}/git/other.db`, SHOP);
    const runtime = new DenoRuntime({
      deno_path: Deno.execPath(),
      cache_dir: Deno.env.get("DENO_DIR") ?? `${Deno.env.get("HOME")}/.cache/deno`,
      owner: "0123456789abcdef",
      clock: systemClock,
      agent: { name: "agent", module: import.meta.resolve("./_probe_agent.ts") },
    });
    const lines: string[] = [];
    const sandbox = await runtime.start({
      task_id: "f".repeat(32),
      work_dir: `${root}/work`,
      workload: {
        kind: "built_in_agent",
        gateway_url: "http://127.0.0.1:9",
        token: "t",
        model: "m",
        instruction: "i",
        databases: { directory: `${root}/databases`, files: [{ name: "shop", file: "shop.db" }] },
      },
      memory_bytes: 256 << 20,
      timeout_ms: 60_000,
      max_output_bytes: 1 << 20,
      onOutput: ({ text }) => lines.push(text),
    });
    await sandbox.wait();
    assertEquals(JSON.parse(lines.join("\n")), {
      "open its database": "NotCapable",
      "read its database": "NotCapable",
      "read another folder of the task": "NotCapable",
      "open a database there": "NotCapable",
      "make a database there": "NotCapable",
      "list the task's folder": "NotCapable",
      "exchange the folder of its databases": "NotCapable",
      "link to a file outside": "NotCapable",
      "have its database changed": "done",
      "have another one attached": "PermissionDenied",
      "have one copied out": "PermissionDenied",
      "have its schema written": "PermissionDenied",
      "have its schema made writable": "PermissionDenied",
      "have temporary files written elsewhere": "PermissionDenied",
      "have an extension loaded": "PermissionDenied",
      "have a file read as a database": "PermissionDenied",
      "have a journal written beside it": "PermissionDenied",
      "have its folder read": "PermissionDenied",
    });
    for (const [path, n] of [["git/other.db", 3], ["databases/shop.db", 2]] as const) {
      const db = new DatabaseSync(`${root}/${path}`);
      assertEquals({ ...db.prepare("SELECT count(*) AS n FROM items").get() }, { n }, path);
      db.close();
    }
    const names = (path: string) => [...Deno.readDirSync(`${root}/${path}`)].map(({ name }) => name).sort();
    assertEquals([names("."), names("git")], [["databases", "git", "work"], ["other.db", "secret"]]);
  } finally {
    await Deno.remove(root, { recursive: true });
  }
});
