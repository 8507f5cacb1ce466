import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { deflateSync } from "node:zlib";
import { TaskdError } from "../../../lib/errors.ts";
import { requireBoundCommit } from "../../../broker/engine/bind.ts";
import { commitMessage, withDigest } from "../../../broker/engine/change_text.ts";
import { commitTree } from "../../../broker/git/commit.ts";
import { scaledTest, shortened } from "../../support/long.ts";
import { BrokerBench } from "./bench.ts";

const NOT_JSON = "{";

/** The code that something is refused with; undefined when it is not. */
function codeOf(attempt: Promise<unknown>): Promise<string | undefined> {
  return attempt.then(() => undefined, (error) => error instanceof TaskdError ? error.code : String(error));
}

Deno.test("attack: a brief rewritten or damaged on the disk is not shown", async () => {
  await using bench = await BrokerBench.start();
  const { id } = await bench.submit();
  await bench.reaches(id, "awaiting_approval");
  const path = `${bench.home}/.taskd/audit/${id}.brief.json`;
  const brief = await Deno.readTextFile(path);
  assertEquals(await bench.engine.brief(id), JSON.parse(brief));
  for (const text of [brief.replace('"flags":[', '"flags": ['), `${brief} `, NOT_JSON, ""]) {
    await Deno.writeTextFile(path, text);
    assertEquals((await assertRejects(() => bench.engine.brief(id), TaskdError)).code, "altered");
  }
});

Deno.test("attack: a diff rewritten on the disk is not shown, and the task can be denied", async () => {
  await using bench = await BrokerBench.start();
  const { id } = await bench.submit();
  await bench.reaches(id, "awaiting_approval");
  const path = `${bench.home}/.taskd/audit/${id}.diff`;
  const diff = await Deno.readTextFile(path);
  assertEquals(new TextDecoder().decode(await bench.engine.diff(id)), diff);
  await Deno.writeTextFile(path, diff.replaceAll("+hello", "+harmless"));
  assertEquals((await assertRejects(() => bench.engine.diff(id), TaskdError)).code, "altered");
  await bench.engine.deny(id, "another process writes here");
  assertEquals((await bench.engine.view(id)).outcome, "denied");
});

/** What becomes of a staged object's file. */
const OBJECT_DAMAGES: Record<string, (path: string) => void> = {
  "a bit flipped": (path) => {
    const bytes = Deno.readFileSync(path);
    bytes[bytes.length >> 1]! ^= 1;
    Deno.writeFileSync(path, bytes);
  },
  "other content under its name": (path) =>
    Deno.writeFileSync(path, deflateSync(new TextEncoder().encode("blob 6\0EVIL!\n"))),
  "cut": (path) => Deno.truncateSync(path, 5),
  "gone": (path) => Deno.removeSync(path),
};

Deno.test("attack: a staged file that is damaged, rewritten or gone ends in no approval", async (t) => {
  for (const [name, damage] of Object.entries(OBJECT_DAMAGES)) {
    await t.step(name, async () => {
      await using bench = await BrokerBench.start();
      const { id } = await bench.submit();
      const { gate } = await bench.reaches(id, "awaiting_approval");
      // "hello\n", as git names it.
      const objects = `${bench.home}/.taskd/stage/${id}/git/objects`;
      const path = `${objects}/ce/013625030ba8dba906f756967f9e9ca394464a`;
      Deno.chmodSync(path, 0o600);
      damage(path);
      const consent = { diff_sha256: gate!.diff_sha256, acknowledge: gate!.second_look };
      const error = await assertRejects(() => bench.engine.approve(id, consent), TaskdError);
      assertEquals(error.code, "altered", error.message);
      assertStringIncludes(error.message, "a file or folder of the staged change is damaged or gone");
      assertEquals((await bench.engine.view(id)).stage, "awaiting_approval");
    });
  }
});

scaledTest(
  "attack: any byte changed of what is kept at the gate is altered to review and approve",
  async () => {
    await using bench = await BrokerBench.start();
    const { engine } = bench;
    const { id } = await bench.submit({ sensitive: true });
    const { gate } = await bench.reaches(id, "awaiting_approval");
    const consent = { diff_sha256: gate!.diff_sha256, acknowledge: gate!.second_look };
    const shows = {
      ".jsonl": async () => (await engine.view(id)).trace.intact ? undefined : "altered",
      ".brief.json": () => codeOf(engine.brief(id)),
      ".diff": () => codeOf(engine.diff(id)),
    };
    for (const [kind, review] of Object.entries(shows)) {
      const path = `${bench.home}/.taskd/audit/${id}${kind}`;
      const bytes = await Deno.readFile(path);
      const places = shortened([...bytes.keys()], 60);
      const changed = [
        ...places.map((at) => bytes.with(at, bytes[at]! ^ 1 << at % 8)),
        ...kind === ".jsonl" ? [] : [bytes.slice(0, -1), new Uint8Array([...bytes, 0x20]), new Uint8Array()],
      ];
      for (const other of changed) {
        await Deno.writeFile(path, other);
        assertEquals([await review(), await codeOf(engine.approve(id, consent))], ["altered", "altered"], kind);
      }
      await Deno.remove(path);
      assertEquals(await codeOf(engine.approve(id, consent)) !== undefined, true);
      await Deno.writeFile(path, bytes, { mode: 0o600 });
      assertEquals(await review(), undefined);
    }
    assertEquals(engine.tasks.read(id).stage, "awaiting_approval");
  },
);

Deno.test("attack: no commit is pushed but that whose tree, parent, words and target were approved", async () => {
  await using bench = await BrokerBench.start();
  const { id } = await bench.submit();
  const record = await bench.reaches(id, "awaiting_approval");
  const { binding, diff_sha256 } = record.gate!;
  const { base: { commit: base_commit, tree: base_tree }, tree, repository: remote } = binding!;
  const git_dir = `${bench.home}/.taskd/stage/${id}/git`;
  const { git: { git } } = bench;
  const whole = { git_dir, tree, base_commit, message: withDigest(commitMessage(record), diff_sha256) };
  const options = { ...whole, at_ms: 0 };
  const approved = await commitTree(git, options);
  await requireBoundCommit(git, record, { git_dir, commit: approved, remote, signal: undefined });
  const others = await Promise.all([
    commitTree(git, { ...options, tree: base_tree }),
    commitTree(git, { ...options, base_commit: approved }),
    commitTree(git, { ...options, message: options.message.replace("hello", "hallo") }),
    commitTree(git, { ...options, message: `${options.message}\n` }),
    commitTree(git, { ...options, message: commitMessage(record) }),
    commitTree(git, { ...options, message: withDigest(commitMessage(record), "0".repeat(64)) }),
  ]);
  assertEquals(new Set(others).size, others.length);
  for (const [at, commit] of others.entries()) {
    assertEquals(
      await codeOf(requireBoundCommit(git, record, { git_dir, commit, remote, signal: undefined })),
      "corrupt",
      `commit ${at}`,
    );
  }
  const elsewhere = { git_dir, commit: approved, remote: `${remote}x`, signal: undefined };
  assertEquals(await codeOf(requireBoundCommit(git, record, elsewhere)), "corrupt");
  const reworded = { ...record, instruction: "Say hello\nand more" };
  assertEquals(
    await codeOf(requireBoundCommit(git, reworded, { git_dir, commit: approved, remote, signal: undefined })),
    "corrupt",
  );
});
