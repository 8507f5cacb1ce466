/**
 * What no program of taskd puts into a store or a workspace: whatever it is and wherever it lies, each command answers,
 * names it and says what to do, and other branches go on.
 */

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { basename } from "@std/path/basename";
import { dirname } from "@std/path/dirname";
import { ERROR_CODES } from "../../lib/errors.ts";
import { parseAddress } from "../../lib/store/names.ts";
import type { Finding } from "../../lib/store/results.ts";
import { filesBelow } from "../../lib/store/workspace.ts";
import { scaledTest, shortened } from "../support/long.ts";
import { copyDirectory } from "../sim/template.ts";
import { Bench } from "./_bench.ts";
import type { Answer } from "./_child.ts";

const main = parseAddress("app");
const elsewhere = parseAddress("shop");

/** Kinds, by how they are made. */
const KINDS: Record<string, (path: string, bench: Bench) => unknown> = {
  "a directory": (path) => Deno.mkdir(path),
  "a FIFO": (path) => new Deno.Command("mkfifo", { args: [path] }).output(),
  "a socket": (path) => new Deno.Command("python3", { args: ["-c", SOCKET, path] }).output(),
  "a dangling link": (path) => Deno.symlink("/nowhere/at/all", path),
  "a link to a directory": (path, { directory }) => Deno.symlink(directory, path),
  "a huge file": async (path) => {
    using file = await Deno.create(path);
    await file.truncate(5 * 2 ** 30);
  },
};
const SOCKET = "import os, socket, sys; os.chdir(os.path.dirname(sys.argv[1])); " +
  "socket.socket(socket.AF_UNIX).bind(os.path.basename(sys.argv[1]))";

const PLACES = [
  "refs/app/main.json",
  "refs/app/stray.json",
  // Of the names that a destroy gives, which are read again when the branch goes.
  "refs/app/made-pre-destroy-2.json",
  "refs/stray",
  "data/stray",
  "data/LINEAGE/stray",
  "data/LINEAGE/EPOCH/OBJECT",
  "gc/tombstones.json",
  "holders/stray",
  "checkouts/app/main.db",
  "checkouts/app/main.db-wal",
  "checkouts/app/main.db-shm",
  "checkouts/app/main.db-journal",
  "checkouts/app/main.db.sum",
  "checkouts/app/main.db.session",
  "checkouts-ro/app/main@one.db",
  "tmp",
] as const;

/** Of these, those that hold no other branch up, and of which a pass has exactly one finding. */
const RECORDS = /^(?:refs|data)/;
/** An empty folder, and a file that no program of this version has written, do no harm among the others. */
const HARMLESS = /^(?:refs|data\/LINEAGE|data)\/stray a directory|^data\/.*stray a huge file/;

const COMMANDS: [op: string, ...args: unknown[]][] = [
  ["verifyAll"],
  ["branches"],
  ["repair", { dry_run: true }],
  ["collectGarbage", { grace_ms: 0 }],
  ["session_open", main],
  ["close_store"],
];
/** What people do to other branches meanwhile. */
const BESIDE: typeof COMMANDS = [
  ["fork", elsewhere, "made"],
  ["destroy", parseAddress("shop@made"), { confirm: true }],
  ["fork", parseAddress("app@apart"), "made"],
  ["destroy", parseAddress("app@made"), { confirm: true }],
  ["session_open", parseAddress("app@apart")],
  ["close_store"],
];

async function prepare(bench: Bench): Promise<void> {
  const operator = bench.operator();
  await operator.ok("create", "app", { from: await bench.database() });
  await operator.ok("create", "shop", { from: await bench.database() });
  await operator.ok("checkpoint", main, "one");
  await operator.ok("fork", main, "apart");
  // Of a lineage of its own.
  await operator.ok("compact", parseAddress("app@apart"));
  await operator.ok("checkout", main);
  await operator.ok("checkout", parseAddress("app@main@one"));
  await operator.ok("collectGarbage", { grace_ms: 0 });
  await operator.end();
}

/** Holds an answer against what each has to say, whatever it was asked. */
function assertNamed(what: string, answer: Answer, name: string): void {
  if (answer.ok) return;
  assert(answer.code in ERROR_CODES, `${what}: ${answer.code}: ${answer.message}`);
  assertStringIncludes(answer.message, name, what);
  assert(answer.hint !== undefined && !/^Try again/.test(answer.hint), `${what}: ${answer.message} [${answer.hint}]`);
}

scaledTest("whatever lies in a store's way is named, and other branches go on", async (t) => {
  await using bench = await Bench.make();
  await prepare(bench);
  await copyDirectory(bench.location, `${bench.directory}/kept`);
  const { lineage } = JSON.parse(await Deno.readTextFile(`${bench.location}/refs/app/main.json`));
  const object = [...filesBelow(`${bench.location}/data/${lineage}`, 3)].find((path) => path.includes("snapshot"))!;
  const cases = PLACES.flatMap((place) => Object.keys(KINDS).map((kind) => [place, kind] as const));
  for (const [place, kind] of shortened(cases, 6)) {
    const case_ = `${place} ${kind}`;
    await t.step(case_, async () => {
      await Deno.remove(bench.location, { recursive: true });
      await copyDirectory(`${bench.directory}/kept`, bench.location);
      const path = place.includes("OBJECT") ? object : `${bench.location}/${place.replace("LINEAGE", lineage)}`;
      await Deno.remove(path, { recursive: true }).catch(() => {});
      await Deno.mkdir(dirname(path), { recursive: true });
      await KINDS[kind]!(path, bench);
      const operator = bench.operator();
      const ask = async ([op, ...args]: typeof COMMANDS[number]) => {
        const answer = await operator.run(op, ...args);
        assert(answer !== undefined, `${case_}: ${op} hung or died`);
        assertNamed(`${case_}: ${op}`, answer, basename(path));
        return answer;
      };
      const records = RECORDS.test(place);
      for (const command of COMMANDS) {
        const answer = await ask(command);
        if (command[0] === "branches") assert(answer.ok, case_);
        if (command[0] !== "verifyAll" || !records) continue;
        assert(answer.ok, `${case_}: ${JSON.stringify(answer)}`);
        const { findings } = answer.value as { findings: Finding[] };
        const key = path.slice(bench.location.length + 1);
        assertEquals(findings.map(({ where }) => where), HARMLESS.test(case_) ? [] : [key], case_);
      }
      for (const command of BESIDE) {
        const answer = await ask(command);
        assert(answer.ok || place.startsWith("gc/"), `${case_}: ${command[0]}: ${JSON.stringify(answer)}`);
      }
      await operator.end();
    });
  }
});
