/** Where a call of git works. */

/** A git directory, and what a command works on beside it. */
export interface GitRepository {
  /** Absolute; never below a directory that a sandbox sees. */
  git_dir: string;
  /** Absolute path of untrusted files; without it the repository is bare to the command. */
  work_tree?: string;
  /** Index file, in the git directory; by default its own. */
  index_file?: string;
  /** The folder of objects that its alternates name. The file itself is not believed: git has written beside it. */
  borrows?: string;
}
