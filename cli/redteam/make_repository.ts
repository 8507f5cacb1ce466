/** A repository for attacks that take one. */

import type { Git } from "../../broker/git/git.ts";

/** A bare repository with one commit on main. */
export async function makeRepository(git: Git, root: string): Promise<string> {
  const git_dir = `${root}/origin.git`;
  const options = { repository: { git_dir }, attempted: "Cannot make a repository to attack", signal: undefined };
  await git.run(["init", "--quiet", "--bare", "--template="], options);
  const stdin = (text: string) => ({ ...options, stdin: new TextEncoder().encode(text) });
  const blob = await git.text(["hash-object", "-w", "--stdin"], stdin("# app\n"));
  const tree = await git.text(["mktree"], stdin(`100644 blob ${blob}\tREADME.md\n`));
  const identity = ["NAME=a", "EMAIL=a@example.com", "DATE=@1700000000 +0000"].map((field) => field.split("="));
  const env = Object.fromEntries(
    ["AUTHOR", "COMMITTER"].flatMap((who) => identity.map(([name, value]) => [`GIT_${who}_${name}`, value!])),
  );
  const commit = await git.text(["commit-tree", tree, "-m", "first"], { ...options, env });
  await git.run(["update-ref", "refs/heads/main", commit], options);
  await git.run(["symbolic-ref", "HEAD", "refs/heads/main"], options);
  return git_dir;
}
