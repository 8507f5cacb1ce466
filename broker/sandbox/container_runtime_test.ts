import type { ContainerKind } from "./runtime.ts";
import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { systemClock } from "../../lib/clock.ts";
import { TaskdError } from "../../lib/errors.ts";
import { writeProgram } from "../../tests/support/programs.ts";
import { ContainerRuntime } from "./container_runtime.ts";

/** What the call fails with when the program answers every question with `answer`. */
async function failure(
  kind: ContainerKind,
  answer: string,
  call: (runtime: ContainerRuntime, work_dir: string) => Promise<unknown>,
): Promise<TaskdError> {
  const folder = await Deno.makeTempDir();
  try {
    await Deno.mkdir(`${folder}/work`);
    const program = `${folder}/${kind}`;
    await writeProgram(program, `#!/bin/sh\ncat <<'END'\n${answer}\nEND\n`);
    const runtime = new ContainerRuntime({
      kind,
      program,
      network: "taskd-test",
      gateway_ip: "192.168.66.1",
      anchor_image: "anchor",
      owner: "0123456789abcdef",
      clock: systemClock,
      rootless: true,
      oci_runtime: "",
      env: () => undefined,
    });
    return await assertRejects(() => call(runtime, `${folder}/work`), TaskdError, undefined, answer);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

const NONSENSE = ["", "no \u001b JSON", "null", "7", '"x"', "[null]", "[7]"];

Deno.test("an answer of a container program that is not understood is sandbox_failed, with the answer", async () => {
  const run = async (runtime: ContainerRuntime, work_dir: string): Promise<unknown> => {
    const sandbox = await runtime.start({
      task_id: "0123456789abcdef0123456789abcdef",
      work_dir,
      workload: { kind: "command", image: "x", command: ["x"], env: {}, mounts: [], network: "x", max_pids: 9 },
      memory_bytes: 1 << 20,
      timeout_ms: 60_000,
      max_output_bytes: 1 << 20,
      onOutput() {},
    });
    return await sandbox.wait();
  };
  const cases: [kind: ContainerKind, answers: string[], call: typeof run][] = [
    ["podman", [...NONSENSE, "[]", "{}"], (runtime) => runtime.prepare()],
    ["podman", [...NONSENSE, "[]", "{}", '{"ExitCode":"0"}'], run],
    ["container", [...NONSENSE, "{}", '[{"configuration":7}]'], (runtime) => runtime.sweep(new Set())],
  ];
  for (const [kind, answers, call] of cases) {
    for (const answer of answers) {
      const { code, message } = await failure(kind, answer, call);
      assertEquals(code, "sandbox_failed", `${answer}: ${message}`);
      assertStringIncludes(message, `not understood: ${answer.replace("\u001b", "\\x1b") || "nothing"}`);
    }
  }
});
