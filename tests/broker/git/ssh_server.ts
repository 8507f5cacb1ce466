/**
 * A real ssh server on loopback that lets one key in, and an agent that has it. Needs root and openssh-server.
 */

import { systemClock } from "../../../lib/clock.ts";

/** Both of them. */
export interface SshServer extends AsyncDisposable {
  port: number;
  /** The agent's socket. */
  agent: string;
  /** For a client's configuration: `work` is this server, and its host key the only one that is taken. */
  config: string;
}

/** What of it this machine lacks; undefined when nothing. */
export function sshMissing(): string | undefined {
  if (Deno.uid() !== 0) return "this needs root";
  try {
    Deno.statSync("/usr/sbin/sshd");
    return undefined;
  } catch {
    return "openssh-server is not installed";
  }
}

async function run(program: string, ...args: string[]): Promise<void> {
  const { success, stderr } = await new Deno.Command(program, { args, stdout: "null" }).output();
  if (!success) throw new Error(`${program} ${args.join(" ")}: ${new TextDecoder().decode(stderr)}`);
}

function freePort(): number {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  return listener.addr.port;
}

async function answers(address: Deno.ConnectOptions | Deno.UnixConnectOptions): Promise<void> {
  for (;;) {
    try {
      return void (await Deno.connect(address as Deno.ConnectOptions)).close();
    } catch {
      await systemClock.sleep(20);
    }
  }
}

/** Starts both; their files go into `folder`, the key itself into the agent alone. */
export async function serveSsh(folder: string): Promise<SshServer> {
  const [port, agent] = [freePort(), `${folder}/agent`];
  await Deno.mkdir(folder);
  // Of Debian's sshd, which its service makes.
  await Deno.mkdir("/run/sshd", { recursive: true });
  for (const name of ["host", "user"]) {
    await run("/usr/bin/ssh-keygen", ...["-q", "-t", "ed25519", "-N", "", "-f", `${folder}/${name}`]);
  }
  const settings = `ListenAddress 127.0.0.1:${port}
HostKey ${folder}/host
AuthorizedKeysFile ${folder}/user.pub
PidFile none
StrictModes no
UsePAM no
PermitRootLogin yes
PasswordAuthentication no
KbdInteractiveAuthentication no
AcceptEnv GIT_PROTOCOL
`;
  await Deno.writeTextFile(`${folder}/sshd_config`, settings);
  const host = await Deno.readTextFile(`${folder}/host.pub`);
  await Deno.writeTextFile(`${folder}/known`, `[127.0.0.1]:${port} ${host}`);
  const quiet = { stdout: "null", stderr: "null" } as const;
  const children = [
    new Deno.Command("/usr/sbin/sshd", { args: ["-D", "-f", `${folder}/sshd_config`], ...quiet }).spawn(),
    new Deno.Command("/usr/bin/ssh-agent", { args: ["-D", "-a", agent], ...quiet }).spawn(),
  ];
  await answers({ hostname: "127.0.0.1", port });
  await answers({ transport: "unix", path: agent });
  const add = new Deno.Command("/usr/bin/ssh-add", {
    args: ["-q", `${folder}/user`],
    env: { SSH_AUTH_SOCK: agent },
  });
  if (!(await add.output()).success) throw new Error("the agent does not take the key");
  await Deno.remove(`${folder}/user`);
  return {
    port,
    agent,
    config: `Host work
  HostName 127.0.0.1
  Port ${port}
  User root
  UserKnownHostsFile ${folder}/known
  StrictHostKeyChecking yes
`,
    [Symbol.asyncDispose]: async () => {
      for (const child of children) child.kill("SIGTERM");
      await Promise.all(children.map((child) => child.status));
    },
  };
}
