import { assert, assertEquals } from "@std/assert";
import { Buffer } from "node:buffer";
import { pathText } from "../../../lib/text/characters.ts";
import { sanitizeLine } from "../../../lib/text/sanitize.ts";
import { makePlace } from "../../cli/support/taskd.ts";
import { SeededRandom } from "../../support/writers/random.ts";
import { BrokerBench } from "../engine/bench.ts";
import { makeOddTree, oddTree, TOO_LARGE_BYTES } from "../git/odd_trees.ts";
import { longTest } from "../../support/long.ts";

longTest("a change of odd names is reviewed, approved by its command and lands byte for byte", async () => {
  const files = oddTree(new SeededRandom(99), 40);
  await using bench = await BrokerBench.start({
    config: `max_file_bytes: ${TOO_LARGE_BYTES}\n`,
    script: [async () => {
      await makeOddTree(`${bench.home}/.taskd/stage/${bench.staged()[0]}/work`, files);
      return { calls: [["finish", { summary: "done" }]] };
    }],
  });
  await using place = await makePlace({
    env: () => ({ HOME: bench.home, DENO_DIR: bench.env("DENO_DIR")!, BROKER_SOCKET: `${bench.root}/s/taskd.sock` }),
  });
  const { id } = await bench.submit();
  const { gate, reason } = await bench.reaches(id, "awaiting_approval");
  assert(gate !== undefined, reason);
  const { flags } = await bench.engine.brief(id);
  const left = flags.find(({ category }) => category === "left_out")!.paths.map(({ path }) => path);
  const large = files.filter(({ kind, git }) => kind === "large" && !git).map(({ raw }) => pathText(raw));
  for (const path of large) assert(left.includes(path), path);
  const { code, stdout } = await place.taskd("review", id);
  assertEquals(code, 0);
  // deno-lint-ignore no-control-regex
  assert(!/[\x00-\x08\x0b-\x1f\x7f-\x9f\u200c\u202e\ufeff]/.test(stdout));
  const kept = files.filter(({ kind, git }) => !git && (kind === "file" || kind === "link"));
  for (const path of [...kept.map(({ raw }) => pathText(raw)), ...large]) {
    assert(stdout.includes(sanitizeLine(path)), path);
  }
  const words = /^ {2}(taskd approve .*)$/m.exec(stdout)![1]!.split(" ").slice(1);
  for (const missing of gate.second_look) {
    const at = words.indexOf(missing);
    assertEquals((await place.taskd(...words.filter((_, index) => index !== at && index !== at - 1))).code, 1, missing);
  }
  const approved = await place.taskd(...words);
  assertEquals([approved.code, (await bench.reaches(id)).outcome], [0, "pushed"], approved.stderr);
  const git = async (...args: string[]) => {
    const { stdout } = await new Deno.Command("/usr/bin/git", { args, cwd: bench.git.origin }).output();
    return Buffer.from(stdout).toString("latin1");
  };
  const listed = (await git("ls-tree", "-r", "-z", `agent/${id}`)).split("\0").filter((record) => record !== "");
  const landed = new Map(listed.map((record) => [record.slice(record.indexOf("\t") + 1), record.split(/[ \t]/)[2]!]));
  landed.delete("README.md");
  assertEquals([...landed.keys()].sort(), kept.map(({ raw }) => raw).sort());
  for (const { raw, kind, content } of kept) {
    assertEquals(await git("cat-file", "blob", landed.get(raw)!), kind === "link" ? "target" : content);
  }
});
