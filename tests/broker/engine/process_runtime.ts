/**
 * A runtime that runs a container's command as a plain process of this machine, in a folder of programs of the test: for
 * what the engine does with profiles and with agents that are programs. It restrains nothing.
 */

import type {
  ListenAddresses,
  Sandbox,
  SandboxEnd,
  SandboxRuntime,
  SandboxSpec,
} from "../../../broker/sandbox/runtime.ts";

/** Runs commands here. */
export class ProcessRuntime implements SandboxRuntime {
  readonly name = "podman";
  /** Every sandbox that was asked for. */
  readonly specs: SandboxSpec[] = [];
  /** Of the image. */
  digest: string | undefined;
  readonly #programs: string;

  /** Takes programs from the folder `programs`. */
  constructor(programs: string) {
    this.#programs = programs;
  }

  prepare(): Promise<{ listen: ListenAddresses }> {
    return Promise.resolve({ listen: { hostname: "127.0.0.1", gateway_port: 0, proxy_port: 0 } });
  }

  version(): Promise<string> {
    return Promise.resolve("5.0.0");
  }

  imageDigest(): Promise<string | undefined> {
    return Promise.resolve(this.digest);
  }

  sweep(): Promise<string[]> {
    return Promise.resolve([]);
  }

  close(): Promise<void> {
    return Promise.resolve();
  }

  start(spec: SandboxSpec): Promise<Sandbox> {
    this.specs.push(spec);
    const { workload, work_dir, onOutput } = spec;
    if (workload.kind !== "command") throw new Error("only commands");
    const [program, ...args] = workload.command;
    const home = workload.mounts.find(({ target }) => target === "/home/agent")?.source ?? work_dir;
    const child = new Deno.Command(`${this.#programs}/${program}`, {
      args,
      cwd: work_dir,
      clearEnv: true,
      env: { ...workload.env, HOME: home, PATH: "/usr/bin:/bin" },
      stdin: "null",
      stdout: "piped",
      stderr: "piped",
      detached: true,
    }).spawn();
    let reason: SandboxEnd["reason"] = "exited";
    const read = async (stream: "stdout" | "stderr") => {
      const text = await new Response(child[stream]).text();
      for (const line of text.split("\n").filter((line) => line !== "")) onOutput({ stream, text: line });
    };
    const end = Promise.all([child.status, read("stdout"), read("stderr")]).then(([{ code, signal }]): SandboxEnd => {
      return { reason, code, ...(signal === null ? {} : { signal }), output_truncated: false };
    });
    return Promise.resolve({
      wait: () => end,
      stop: () => {
        reason = "stopped";
        try {
          Deno.kill(-child.pid, "SIGKILL");
        } catch {
          // It has ended by itself.
        }
        return end;
      },
    });
  }
}
