/**
 * What an operation answered is on disk by then: its system calls are played into a model that forgets, as a machine
 * without power does, all that was not forced to disk.
 */

import { assert, assertEquals } from "@std/assert";
import { dirname } from "node:path/posix";
import { openStore } from "../../lib/store/open.ts";
import { prepare, scenarioArgs, SCENARIOS } from "../sim/scenarios.ts";
import { copyDirectory } from "../sim/template.ts";
import { shortened } from "../support/long.ts";
import { sql, withDirectory } from "../support/stores.ts";
import { whyNoStrace } from "../support/strace.ts";
import { textLines } from "../support/text_lines.ts";

const CHILD = new URL("./_child.ts", import.meta.url).pathname;
const CALLS = "rename,renameat,renameat2,link,linkat,unlink,unlinkat,mkdir,mkdirat,rmdir,write,pwrite64,ftruncate," +
  "copy_file_range,fsync,fdatasync";

/** Runs requests in a traced process, `between` them what an application does; returns the calls in their order. */
async function trace(
  location: string,
  log: string,
  requests: { op: string; args: unknown[]; after?: (answer: unknown) => void }[],
): Promise<string[]> {
  const child = new Deno.Command("strace", {
    args: ["-f", "-qq", "-y", "-s", "4096", "-o", log, "-e", `trace=${CALLS}`]
      .concat([Deno.execPath(), "run", "-A", "--no-prompt", "--quiet", CHILD, location]),
    stdin: "piped",
    stdout: "piped",
    stderr: "null",
  }).spawn();
  const input = child.stdin.getWriter();
  const answers = textLines(child.stdout);
  for (const { op, args, after } of requests) {
    await input.write(new TextEncoder().encode(JSON.stringify({ op, args }) + "\n"));
    const answer = JSON.parse((await answers.next()).value!);
    assert(answer.ok, `${op}: ${JSON.stringify(answer)}`);
    after?.(answer.value);
  }
  await input.close();
  await answers.next();
  await child.status;
  return completed(await Deno.readTextFile(log));
}

/** Whole calls in the order in which they ended. */
function completed(log: string): string[] {
  const begun = new Map<string, string>();
  return log.split("\n").flatMap((line) => {
    const [, thread, text] = /^(\d+) +(.*)$/.exec(line) ?? [];
    if (text === undefined) return [];
    if (text.includes("<unfinished ...>")) begun.set(thread!, text.replace(/ *<unfinished ...>.*/, ""));
    const rest = /^<\.\.\. \w+ resumed>(.*)$/.exec(text)?.[1];
    if (rest !== undefined) return [`${begun.get(thread!) ?? ""}${rest}`];
    return text.includes("<unfinished ...>") ? [] : [text];
  }).filter((text) => !/ = -1 E/.test(text));
}

/** What is not on disk at the moment of each answer: files with unsynced bytes, and names. */
function forgotten(calls: string[], root: string): string[] {
  const [bytes, names, lost] = [new Set<string>(), new Set<string>(), [] as string[]];
  const kept = (path: string) => /^\/(refs|data|bstore\.json)/.test(path.slice(root.length));
  for (const text of calls) {
    const name = /^\w+/.exec(text)?.[0] ?? "";
    const open = /^\w+\(\d+<([^>]*)>/.exec(text)?.[1] ?? "";
    const paths = [...text.matchAll(/"((?:[^"\\]|\\.)*)"/g)].map(([, path]) => path!);
    if (name === "write" && /^write\(1</.test(text) && text.includes('\\"ok\\":true')) {
      for (const path of [...bytes, ...names]) if (kept(path)) lost.push(path);
    } else if (/^(write|pwrite64|ftruncate)$/.test(name)) bytes.add(open);
    else if (name === "copy_file_range") bytes.add(/, \d+<([^>]*)>/.exec(text)?.[1] ?? "");
    else if (/^f(data)?sync$/.test(name)) {
      bytes.delete(open);
      for (const path of names) if (dirname(path) === open) names.delete(path);
    } else if (/^(rename|link)/.test(name)) {
      const [from, to] = [paths[0]!, paths[1]!];
      if (bytes.has(from) && kept(to)) lost.push(`the bytes of ${to}`);
      names.add(to);
    } else if (/^(mkdir|unlink|rmdir)/.test(name)) {
      // A directory that is gone needs no sync of what was in it.
      if (name === "rmdir" || text.includes("AT_REMOVEDIR")) {
        for (const path of names) if (dirname(path) === paths[0]) names.delete(path);
      }
      names.add(paths[0]!);
    }
  }
  return lost;
}

const no_strace = await whyNoStrace();

Deno.test({
  name: `an operation at rest answers when all that it wrote to the store is on disk${no_strace}`,
  ignore: no_strace !== "",
  fn: async (t) => {
    await withDirectory(async (directory) => {
      {
        using store = await openStore(`${directory}/template`);
        await prepare(store, directory);
      }
      const changing = SCENARIOS.filter(({ changes }) => Object.keys(changes).length > 0);
      const always = changing.filter(({ name }) => ["checkpoint", "fork", "rollback", "promote"].includes(name));
      const others = changing.filter((scenario) => !always.includes(scenario));
      for (const scenario of [...always, ...shortened(others, 1)]) {
        await t.step(scenario.name, async () => {
          const location = `${directory}/${scenario.name.replaceAll(" ", "-")}`;
          await copyDirectory(`${directory}/template`, location);
          const args = scenarioArgs(scenario, directory);
          const calls = await trace(location, `${directory}/log`, [{ op: scenario.op, args }]);
          assert(calls.some((text) => /^(rename|link).*\/refs\//.test(text)) || scenario.op === "destroy", "no ref");
          assertEquals(forgotten(calls, location), []);
        });
      }
    });
  },
});

Deno.test({
  name: `a flush answers when its object, its ref and the log are on disk, and its holder before${no_strace}`,
  ignore: no_strace !== "",
  fn: () =>
    withDirectory(async (directory) => {
      const location = `${directory}/store`;
      {
        using store = await openStore(location);
        await store.create("app");
      }
      let checkout = "";
      const address = { db: "app", branch: "main" };
      const commit = (...statements: string[]) => sql(checkout, "PRAGMA synchronous=OFF", ...statements);
      const calls = await trace(location, `${directory}/log`, [
        {
          op: "session_open",
          args: [address],
          after: (path) => {
            checkout = String(path);
            commit("CREATE TABLE t(v)");
          },
        },
        { op: "session_flush", args: [], after: () => commit("INSERT INTO t VALUES(1)") },
        { op: "session_flush", args: [] },
        { op: "session_close", args: [] },
      ]);
      // An opening renews its lease last, right before it installs the file; a renewal may revert.
      const opened = calls.findIndex((text) => /^write\(1</.test(text)) + 1;
      const [before, after] = [calls.slice(0, opened), calls.slice(opened)].map((some) => forgotten(some, location));
      assertEquals(before!.filter((path) => !path.endsWith("/refs/app/main.json")), []);
      assertEquals(after, []);
      // Between each stored object and the ref that names it.
      const steps = calls.flatMap((text) => {
        if (/^(rename|link)[^ ]*\(.*\/data\/.*segment/.test(text)) return ["object"];
        if (/^fdatasync\(\d+<[^>]*main\.db-wal>/.test(text)) return ["log"];
        return /^rename.*\/refs\//.test(text) ? ["ref"] : [];
      }).join(" ");
      const flushes = steps.match(/(object log|log object) ref/g) ?? [];
      assertEquals(flushes.length, 2, steps);
      // Where the store is a bucket, the lease outlives a power cut, and so must what shows that its holder did not.
      const alive = calls.findIndex((text) => /^fsync\(\d+<[^>]*\/holders>/.test(text));
      const leased = calls.findIndex((text) => /^rename.*\/refs\//.test(text));
      assert(alive >= 0 && alive < leased, `${alive} ${leased}`);
      const session = calls.findIndex((text) => /^rename.*main\.db\.session"/.test(text));
      const named = calls.findIndex((text, at) => at > session && /^fsync\(\d+<[^>]*checkouts\/app>/.test(text));
      const answered = calls.findIndex((text) => /^write\(1</.test(text));
      assert(session >= 0 && named > session && named < answered, `${session} ${named} ${answered}`);
    }),
});
