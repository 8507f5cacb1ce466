/**
 * The modes of entries of a tree, as git writes them.
 */

export const EXECUTABLE = "100755";
export const SYMLINK = "120000";
/** A commit of another repository: a submodule. */
export const GITLINK = "160000";
