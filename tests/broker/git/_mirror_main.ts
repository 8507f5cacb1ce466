/**
 * Stages the branches of a repository through mirrors and removes these again, until it is killed: a process for a test.
 * Its arguments: the mirrors' folder, the repository, a folder of its own. It prints the commands of git that it begins,
 * a line for each.
 */

import { Git, type GitRunOptions } from "../../../broker/git/git.ts";
import { parseRepo } from "../../../broker/git/repo_url.ts";
import { stageRepository } from "../../../broker/git/staged_repository.ts";
import { openMirrors } from "./bench.ts";

class SpokenGit extends Git {
  override tryRun(args: readonly string[], options: GitRunOptions) {
    console.log(args.find((arg) => !arg.startsWith("-")));
    return super.tryRun(args, options);
  }
}

const [root, origin, own] = Deno.args as [string, string, string];
await Deno.mkdir(`${own}/home`, { recursive: true });
const git = new SpokenGit({ home: `${own}/home` });
const mirrors = openMirrors(root);
for (let round = 0;; round++) {
  const [git_dir, work_tree] = [`${own}/${round}/git`, `${own}/${round}/work`];
  // Two branches, so that a mirror has more than one pack.
  for (const base of ["main", "other"]) {
    await stageRepository(git, { url: parseRepo(origin), base, git_dir, work_tree, mirrors });
    await Deno.remove(`${own}/${round}`, { recursive: true });
  }
  await mirrors.prune({ before_ms: Infinity, dry_run: false });
}
