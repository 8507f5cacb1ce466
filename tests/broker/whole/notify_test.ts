import { assert, assertEquals } from "@std/assert";
import { BrokerBench, until } from "../engine/bench.ts";
import { writeProgram } from "../../support/programs.ts";
import { longTest } from "../../support/long.ts";

/** A broker whose desktop has a notify-send that writes down each call. */
async function withDesktop(
  { env = {}, config = "" }: { env?: Record<string, string>; config?: string },
  test: (bench: BrokerBench, calls: () => string[][]) => Promise<void>,
): Promise<void> {
  const folder = await Deno.makeTempDir();
  try {
    const path = `${folder}/notify-send`;
    const script = `#!/bin/bash\nprintf '%s\\0' "$@" > $(/usr/bin/mktemp ${folder}/call.XXXXXXXX)\n`;
    await writeProgram(path, script);
    await using bench = await BrokerBench.start({
      env,
      config,
      programs: { "notify-send": [path] },
    });
    const calls = () =>
      [...Deno.readDirSync(folder)].filter(({ name }) => name.startsWith("call.")).map(({ name }) =>
        Deno.readTextFileSync(`${folder}/${name}`).split("\0").slice(0, -1)
      ).filter((args) => args.length > 0);
    await test(bench, calls);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

const HOSTILE = `--help <b>bold</b> & \u001b]0;title\u0007\u202e"; rm -rf / #\n$(reboot)\u0000 ${"x".repeat(50_000)}`;

// conformance: b6.notification b2.effect.notifications
Deno.test("each gate is announced with one call, on one short line without escapes and markup", () =>
  withDesktop({}, async (bench, calls) => {
    const { id } = await bench.submit({ instruction: HOSTILE.replace("\u0000", "") });
    await bench.reaches(id, "awaiting_approval");
    await until(() => calls().length > 0);
    const [[app, end, title, text, ...more]] = calls() as [string[]];
    assertEquals([app, end, title, more], ["--app-name=taskd", "--", "taskd: an approval is pending", []]);
    assert(text!.includes("&lt;b&gt;bold&lt;/b&gt; &amp;"), text);
    assert(text!.endsWith(`(${id.slice(0, 8)})`));
    // deno-lint-ignore no-control-regex
    assertEquals(/[\u0000-\u001f\u007f-\u009f\u2028-\u202e<>]/.test(text!), false);
    assert(text!.length < 600, String(text!.length));

    await bench.engine.deny(id, "no");
    const other = await bench.submit();
    await bench.reaches(other.id, "awaiting_approval");
    await until(() => calls().length > 1);
    // Not again for what waits already.
    await bench.broker.stop();
    await bench.serve();
    await bench.broker.stop();
    assertEquals(calls().length, 2);
  }));

Deno.test("a gate that a killed broker did not come to announce is announced by the next one", () =>
  withDesktop({}, async (bench, calls) => {
    const { id } = await bench.submit();
    await bench.reaches(id, "awaiting_approval");
    await until(() => calls().length === 1);
    // As a broker leaves it that was killed after the task had come to the gate.
    const { diff_sha256 } = (await bench.engine.view(id)).gate!;
    await Deno.remove(`${bench.home}/.taskd/stage/${id}/announced.${diff_sha256}`);
    await bench.broker.stop();
    await bench.serve();
    await until(() => calls().length === 2);
    assert(calls().every((args) => args.at(-1)!.endsWith(`(${id.slice(0, 8)})`)));
  }));

longTest(
  "a task that does not come to a gate is not announced",
  () =>
    withDesktop({ config: "task_max_requests: 1\n" }, async (bench, calls) => {
      const { id } = await bench.submit();
      assertEquals((await bench.reaches(id)).outcome, "agent_failed");
      await bench.broker.stop();
      assertEquals(calls(), []);
    }),
);

for (
  const { title, ...options } of [
    { title: "TASKD_NO_NOTIFY=1", env: { TASKD_NO_NOTIFY: "1" }, config: "notifications: true\n" },
    { title: "notifications: false", config: "notifications: false\n" },
  ]
) {
  const test = "env" in options ? longTest : Deno.test;
  test(`with ${title} no program is called`, () =>
    withDesktop(options, async (bench, calls) => {
      const { id } = await bench.submit();
      await bench.reaches(id, "awaiting_approval");
      await bench.broker.stop();
      assertEquals(calls(), []);
    }));
}

longTest(
  "of TASKD_NO_NOTIFY only 1 turns notifications off",
  () =>
    withDesktop({ env: { TASKD_NO_NOTIFY: "0" } }, async (bench, calls) => {
      const { id } = await bench.submit();
      await bench.reaches(id, "awaiting_approval");
      await until(() => calls().length === 1);
    }),
);
