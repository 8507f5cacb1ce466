import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { makeBrokerHost, toGate } from "./support/broker.ts";
import { atTerminal, isInstalled, runAtTerminal } from "./support/terminal.ts";

const has_terminal = await isInstalled("script");
const why = has_terminal ? "" : " (ignored: script is not installed)";
const MAIN = new URL("../../cli/main.ts", import.meta.url).pathname;

/** Asserts that a terminal was shown lines and nothing else. */
function assertPlain(seen: string): void {
  // deno-lint-ignore no-control-regex
  assertEquals(/[\x00-\x08\x0b-\x1f\x7f]/.exec(seen.replaceAll("\r\n", "\n")), null, JSON.stringify(seen));
}

Deno.test({
  name: `a terminal that is dumb gets plain lines: nothing is bold, and nothing is drawn over${why}`,
  ignore: !has_terminal,
  fn: async () => {
    await using host = await makeBrokerHost();
    host.engine.script = async (task, engine) => {
      await task.append({ type: "output", channel: "stdout", text: "first\nlast\n" });
      await toGate(task, engine);
    };
    const submit = ["submit", "https://example.com/ada/shop", "Fix"];
    const able = await atTerminal(host, ["help"], "");
    assertStringIncludes(able.seen, "\x1b[1m");
    assertStringIncludes((await atTerminal(host, submit, "")).seen, "\r\x1b[K");
    const help = await atTerminal(host, ["help"], "", { term: "dumb" });
    assertPlain(help.seen);
    assertEquals(help.seen, able.seen.replaceAll("\x1b[1m", "").replaceAll("\x1b[22m", ""));
    const reported = await atTerminal(host, submit, "", { term: "dumb" });
    assertPlain(reported.seen);
    assertStringIncludes(reported.seen, "first\r\n");
  },
});

Deno.test({
  name: `the demo prints plain lines on a dumb terminal${why}`,
  ignore: !has_terminal,
  fn: async () => {
    await using host = await makeBrokerHost();
    // Without git the story ends after its first chapter has begun.
    const bin = `${host.base}/bin`;
    await Deno.mkdir(bin);
    const { stdout } = await new Deno.Command("which", { args: ["sqlite3"] }).output();
    await Deno.symlink(new TextDecoder().decode(stdout).trim(), `${bin}/sqlite3`);
    const words = [
      "/usr/bin/env",
      `PATH=${bin}`,
      Deno.execPath(),
      "run",
      "-A",
      "--no-prompt",
      "--quiet",
      "--unstable-worker-options",
      MAIN,
      "demo",
      "--quick",
    ];
    const env = { ...host.env, TMPDIR: host.base };
    const tell = (term: string) => runAtTerminal(words, { env, cwd: host.base, term });
    assertStringIncludes((await tell("xterm")).seen, "\x1b[1mAn agent fixes");
    const { seen } = await tell("dumb");
    assertStringIncludes(seen, "An agent fixes");
    assertPlain(seen);
  },
});

Deno.test({
  name: `a table on a narrow terminal keeps every column, the last one too${why}`,
  ignore: !has_terminal,
  fn: async () => {
    await using host = await makeBrokerHost();
    await host.json(["create", "shop", "--store", host.store]);
    await host.json(["fork", "shop", "a-branch-with-a-long-name", "--store", host.store]);
    const [branch] = (await host.json(["branches", "--store", host.store])).branches as { touched_at: string }[];
    const touched = branch!.touched_at.slice(0, 16).replace("T", " ");
    for (const columns of [80, 50, 30]) {
      const { code, seen } = await atTerminal(host, ["branches", "--store", host.store], "", { columns });
      assertEquals(code, 0, seen);
      for (const line of seen.split("\r\n")) assert(line.length <= columns, line);
      for (const word of ["TOUCHED", touched, "storage=materialized", "storage=shared", "g-name"]) {
        assertStringIncludes(seen, word);
      }
    }
  },
});
