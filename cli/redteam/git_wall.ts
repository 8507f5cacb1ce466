/**
 * The promise about git that has been taken over by what it read: behind its wall it has its own repository alone.
 */

import { Git } from "../../broker/git/git.ts";
import type { WalledCall } from "../../broker/git/git_wall.ts";
import { findGitWall } from "../../broker/git/open_git.ts";
import { parseRepo } from "../../broker/git/repo_url.ts";
import { stageRepository } from "../../broker/git/staged_repository.ts";
import { seccompFilter } from "../../broker/sandbox/bubblewrap/seccomp_filter.ts";
import { askProgram, PROGRAM_PATHS } from "../../broker/sandbox/host_programs.ts";
import { makeRepository } from "./make_repository.ts";
import type { SecurityPromise } from "./security_promise.ts";

/** What git would try, as commands of bash; each ends with 0 when it can. It has been given the names in capitals. */
export const TAKEN_OVER: Readonly<Record<string, string>> = {
  "read another task": "cat $OTHER/HEAD",
  "write another task": "echo x >> $OTHER/description",
  "read a home": "ls -A /root /home | grep -q .",
  "read a password file": "cat /etc/shadow",
  "read the host's name": "cat /etc/hostname",
  // In a namespace of their own the script and its subshell may have that number.
  "see another process": "[ $VICTIM != $$ ] && [ $VICTIM != $BASHPID ] && kill -0 $VICTIM",
  "reach the network": "exec 3<>/dev/tcp/127.0.0.1/$PORT",
  "write a program": "touch /usr/bin/own-$HOST_PID && rm /usr/bin/own-$HOST_PID",
  "write git's home": "touch $HOME/.gitconfig && rm $HOME/.gitconfig",
  "make a namespace": "unshare --mount true",
  "make a device": "mknod /tmp/disk-$HOST_PID b 7 0 && rm /tmp/disk-$HOST_PID",
  "write the repository's settings": "echo '' >> $OWN/config",
  "exchange the repository's settings": "mv $OWN/config $OWN/old && mv $OWN/old $OWN/config",
  "exchange the objects": "mv $OWN/objects $OWN/old && mv $OWN/old $OWN/objects",
  "name a pack elsewhere": "ln $OWN/objects/pack/*.pack $OWN/objects/own && rm $OWN/objects/own",
  "write over a pack": "for pack in $OWN/objects/pack/*.pack; do : >> $pack || exit 1; done",
  "write attributes": "touch $OWN/info/own && rm $OWN/info/own",
  "write the directory inside": "touch $OWN/text/own && rm $OWN/text/own",
  "write shared memory": "touch /dev/shm/own-$HOST_PID && rm /dev/shm/own-$HOST_PID",
  "write a pack": "touch $OWN/objects/pack/own && rm $OWN/objects/pack/own",
  "write the work tree": "touch $WORK/own && rm $WORK/own",
};
/** What it has to be able to do. */
export const ALLOWED: Readonly<Record<string, string>> = {
  "write the repository": "touch $OWN/own && rm $OWN/own",
  "read the work tree": "ls $WORK",
};

/** The names that the commands have been given. */
export function targetsOf(
  { home, own, other, port, victim }: {
    home: string;
    own: { git_dir: string; work_tree: string };
    other: { git_dir: string };
    /** Of a listener on loopback. */
    port: number;
    /** A process of this machine, of no use to anyone. */
    victim: number;
  },
): Record<string, string> {
  return {
    HOME: home,
    OWN: own.git_dir,
    WORK: own.work_tree,
    OTHER: other.git_dir,
    HOST_PID: String(Deno.pid),
    PORT: String(port),
    VICTIM: String(victim),
  };
}

/** A process to be seen. One that is young has a number that few processes behind the wall can have, too. */
export function startVictim(): Deno.ChildProcess {
  const quiet = { stdin: "null", stdout: "null", stderr: "null" } as const;
  return new Deno.Command("/bin/sleep", { args: ["600"], ...quiet }).spawn();
}

/** A script that prints the name of each command that succeeds. */
export function attackScript(commands: Readonly<Record<string, string>>): string {
  return Object.entries(commands)
    .map(([name, command]) => `if (${command}) >/dev/null 2>&1; then echo "${name}"; fi`).join("\n");
}

/** Of these, any user of a machine can do on the host. */
const ANYONE_CAN = ["read another task", "see another process", "reach the network", "write the work tree"];

export const GIT_WALL_PROMISE: SecurityPromise = {
  id: "git.wall",
  promise: "Git that reads objects and was taken over by one has its own repository, and nothing else",
  attacks: "Other tasks, homes, /etc, processes, the network, programs, devices, its settings, packs, the work tree",
  async run(trial, context) {
    const { env, programs } = context.options;
    const ask = askProgram({ env, clock: context.clock });
    const root = await context.folder();
    const home = `${root}/home`;
    await Deno.mkdir(home);
    const git = new Git({ home, clock: context.clock, places: programs?.git });
    const bwraps = programs?.bubblewrap ?? PROGRAM_PATHS.bubblewrap;
    const wall = await findGitWall(git.path, { ask, bwraps, filter: seccompFilter(Deno.build.arch) });
    if (wall === undefined) return trial.skip("git runs on this host: bubblewrap does not hold it");
    const url = parseRepo(await makeRepository(git, root));
    const stage = (name: string) =>
      stageRepository(git, { url, git_dir: `${root}/${name}/git`, work_tree: `${root}/${name}/work` });
    const [{ git_dir, work_tree }, other] = [await stage("own"), await stage("other")];
    using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    await using victim = startVictim();
    const places = { home, own: { git_dir, work_tree }, other };
    const names = targetsOf({ ...places, port: listener.addr.port, victim: victim.pid });
    const script = attackScript({ ...TAKEN_OVER, ...ALLOWED });
    const variables = Object.entries(names).map(([name, value]) => `${name}=${value}`);
    const attacker = ["/usr/bin/env", [...variables, "/bin/bash", "-c", script]] as const;
    const call: WalledCall = { repository: { git_dir, work_tree }, home, checks_out: false };
    const { program, args } = context.surfaces.behindWall(wall, attacker, call);
    const bare = new Set((await ask(...attacker)).stdout.split("\n"));
    const behind = new Set((await ask(program, args)).stdout.split("\n"));
    for (const name of ANYONE_CAN) trial.control(`without the wall: ${name}`, bare.has(name));
    for (const name of Object.keys(ALLOWED)) trial.control(name, behind.has(name));
    for (const name of Object.keys(TAKEN_OVER)) trial.attempt(name, !behind.has(name));
  },
};
