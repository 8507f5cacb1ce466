/**
 * A runtime without a wall: commands run as processes of the host, in the work folder, with `/workspace` and the
 * targets of mounts spelled as what they stand for. For what the setup phase makes of sandboxes, not for what holds them.
 */

import { systemClock } from "../../../../lib/clock.ts";
import { sanitizeLine } from "../../../../lib/text/sanitize.ts";
import { signalProcess } from "../../../../broker/sandbox/processes.ts";
import type {
  CommandWorkload,
  Sandbox,
  SandboxEnd,
  SandboxRuntime,
  SandboxSpec,
} from "../../../../broker/sandbox/runtime.ts";

/** Runs commands as they are. */
export class HostRuntime implements SandboxRuntime {
  readonly name = "podman";
  /** What was started, in order. */
  readonly started: { spec: SandboxSpec; workload: CommandWorkload }[] = [];
  /** How many run now, and how many did at most. */
  running = 0;
  most_running = 0;

  prepare() {
    return Promise.resolve({ listen: { hostname: "127.0.0.1", gateway_port: 0, proxy_port: 0 } });
  }

  version(): Promise<string> {
    return Promise.resolve("1.0.0");
  }

  start(spec: SandboxSpec): Promise<Sandbox> {
    const { workload } = spec;
    if (workload.kind !== "command") throw new Error("Only commands run here");
    this.started.push({ spec, workload });
    this.most_running = Math.max(this.most_running, ++this.running);
    const places = [["/workspace", spec.work_dir], ...workload.mounts.map(({ target, source }) => [target, source])];
    const spelled = (text: string) => places.reduce((all, [from, to]) => all.replaceAll(from!, to!), text);
    const [program, ...args] = workload.command.map(spelled);
    const env = Object.fromEntries(Object.entries(workload.env).map(([name, value]) => [name, spelled(value)]));
    const child = new Deno.Command(program!, {
      args,
      cwd: spec.work_dir,
      env: { PATH: Deno.env.get("PATH")!, ...env },
      clearEnv: true,
      detached: true,
      stdin: "null",
      stdout: "piped",
      stderr: "piped",
    }).spawn();
    const sandbox = new HostSandbox(child, spec);
    sandbox.wait().finally(() => this.running--).catch(() => {});
    return Promise.resolve(sandbox);
  }

  sweep(): Promise<string[]> {
    return Promise.resolve([]);
  }

  close(): Promise<void> {
    return Promise.resolve();
  }
}

class HostSandbox implements Sandbox {
  readonly #child: Deno.ChildProcess;
  readonly #end: Promise<SandboxEnd>;
  #reason: "exited" | "timed_out" | "stopped" = "exited";

  constructor(child: Deno.ChildProcess, spec: SandboxSpec) {
    this.#child = child;
    this.#end = this.#run(spec);
    this.#end.catch(() => {});
  }

  wait(): Promise<SandboxEnd> {
    return this.#end;
  }

  stop(): Promise<SandboxEnd> {
    this.#kill("stopped");
    return this.#end;
  }

  async #run(spec: SandboxSpec): Promise<SandboxEnd> {
    const over = new AbortController();
    const deadline = systemClock.sleep(spec.timeout_ms, over.signal).then(() => this.#kill("timed_out"), () => {});
    const budget = { left: spec.max_output_bytes, cut: false };
    const read = async (stream: "stdout" | "stderr") => {
      let rest = "";
      for await (const chunk of this.#child[stream]) {
        const part = chunk.subarray(0, budget.left);
        budget.left -= part.length;
        budget.cut ||= part.length < chunk.length;
        const lines = (rest + new TextDecoder().decode(part)).split("\n");
        rest = lines.pop()!;
        for (const text of lines) spec.onOutput({ stream, text: sanitizeLine(text) });
      }
      if (rest !== "") spec.onOutput({ stream, text: sanitizeLine(rest) });
    };
    const output = Promise.all([read("stdout"), read("stderr")]);
    const { code, signal } = await this.#child.status;
    // What it left running ends with it, as in any sandbox.
    signalProcess(-this.#child.pid, "SIGKILL");
    await output;
    over.abort();
    await deadline;
    return { reason: this.#reason, code, ...signal === null ? {} : { signal }, output_truncated: budget.cut };
  }

  #kill(reason: "timed_out" | "stopped"): void {
    if (this.#reason === "exited") this.#reason = reason;
    signalProcess(-this.#child.pid, "SIGKILL");
  }
}
