/**
 * Describes the machine that figures were taken on, without naming it.
 */

import { DatabaseSync } from "node:sqlite";
import { output } from "./process.ts";

/** Facts for a report: processor, memory, kernel, versions, load. */
export async function describeMachine(): Promise<Record<string, string>> {
  const cpu = Deno.readTextFileSync("/proc/cpuinfo").match(/^model name\s*: (.*)$/m)?.[1] ?? "unknown";
  const db = new DatabaseSync(":memory:");
  const sqlite = String(db.prepare("SELECT sqlite_version() AS version").get()!.version);
  db.close();
  return {
    processor: `${cpu}, ${navigator.hardwareConcurrency} cores`,
    memory: `${Math.round(Deno.systemMemoryInfo().total / 2 ** 30)} GiB`,
    kernel: `${Deno.build.os} ${Deno.osRelease()} ${Deno.build.arch}`,
    deno: `${Deno.version.deno}, V8 ${Deno.version.v8}`,
    sqlite: `${sqlite} inside Deno, ${(await output("sqlite3", ["--version"]))?.split(" ")[0] ?? "no"} shell`,
    coreutils: (await output("cp", ["--version"]))?.match(/\d+\.\d+/)?.[0] ?? "unknown",
    load_at_start: Deno.loadavg()[0]!.toFixed(2),
  };
}
