/**
 * Containers that hold nothing. Nothing is run: each attempt that a program names is reported as successful, and the
 * places that it was given are really connected to.
 */

import type { OpenHostSandboxes } from "../../../cli/redteam/host_sandboxes.ts";
import type { ContainerEnd, ContainerRun, OpenNetwork } from "../../../cli/redteam/sandbox_network.ts";

/** What the programs ask about rather than try. */
const ANSWERS: Readonly<Record<string, string>> = {
  "gateway": "the gateway",
  "proxy": "the proxy",
  "uid of a program with the set-user-id bit": "0",
  "set-id programs": "/bin/su",
  "sockets": "/var/run/docker.sock",
  "uids of processes": "0 1000",
  "environment": "HOME VENDORA_API_KEY",
  "names": "nameserver 192.0.2.1",
  "host name": "host",
  "folders of the host": "/etc /root /workspace",
  "set-id programs without nosuid": "/usr/bin/su",
  "writes its work tree": "1",
  "writes its home": "1",
  "writes /tmp": "1",
};

/** Opens them. */
export const naiveContainers: OpenNetwork = () =>
  Promise.resolve({
    gateway_ip: "127.0.0.1",
    close: () => Promise.resolve(),
    start: async (run) => {
      const out = await linesOf(run);
      for (const line of out) run.onLine?.(line);
      const ended = Promise.withResolvers<ContainerEnd>();
      const end: ContainerEnd = { reason: "exited", code: 0, output_truncated: false, out, err: [] };
      // The neighbour and the bomb stay until they are ended.
      if (out.some((line) => line.startsWith("{"))) ended.resolve(end);
      return {
        wait: () => ended.promise,
        stop: () => {
          ended.resolve(end);
          return Promise.resolve(end);
        },
        address: () => Promise.resolve("127.0.0.1"),
      };
    },
  });

async function linesOf({ command, work_dir }: ContainerRun): Promise<string[]> {
  const script = command[1] === "-c" ? command[2] ?? "" : await Deno.readTextFile(`${work_dir}/attempts.py`);
  if (script.includes("os.fork")) return ["made 100000"];
  if (script.includes('print("ready"')) return ["ready", "reached"];
  const names = [...script.matchAll(/^ *attempt(?:_by)?\("([^"]+)"/gm)].map((match) => match[1]!);
  const rows = names.map((name) => ({ name, got: ANSWERS[name] ?? "DONE" }));
  if (script.includes("/proc/self/status")) {
    rows.push({ name: "CapEff:", got: "1ffffffffff" }, { name: "NoNewPrivs:", got: "0" });
  }
  return rows.map((row) => JSON.stringify(row));
}

/** The same in the place of programs of this machine. */
export const naiveHostSandboxes: OpenHostSandboxes = async (folder) => {
  const { start, close } = await naiveContainers();
  return {
    gateway_ip: "127.0.0.1",
    listen: (name) => Promise.resolve(Deno.listen({ transport: "unix", path: `${folder}/${name}` })),
    start,
    close,
  };
};
