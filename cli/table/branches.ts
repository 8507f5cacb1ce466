/** The commands that make, change and remove branches. */

import type { CommandSpec, FlagSpec } from "../plan/command_spec.ts";
import type { Plan } from "../plan/plan.ts";
import { type PermissionSet, unionOf } from "../plan/permissions.ts";
import { branchNeeds, storeNeeds } from "../plan/needs.ts";
import { AT, BRANCH, KEEP, MATERIALIZE, REPOINTING, SAFETY, SAFETY_TTL, WAIT } from "./_branch_flags.ts";
import { commands, duration, file, on, ON_BRANCHES, ON_STORE, text } from "./_row.ts";

const MERGE_FLAGS: readonly FlagSpec[] = [
  on("check", "Show conflicts and counts, and change nothing"),
  text("prefer SIDE", "Decides every conflict of two values: ours or theirs", { choices: ["ours", "theirs"] }),
  file("resolve FILE", "Decides single conflicts: a JSON array of {table, key, column, take}"),
  duration("wait", "How long to wait for a writer that holds the lock; 5 s when absent"),
];

function mergeNeeds(plan: Plan): PermissionSet {
  const { resolve } = plan.flags;
  return typeof resolve === "string" ? unionOf(branchNeeds(plan), { read: [resolve] }) : branchNeeds(plan);
}

export const BRANCH_COMMANDS: readonly CommandSpec[] = commands("Branches", { ...ON_BRANCHES, output: "note" }, [
  {
    name: "create",
    summary: "Create a database with its branch main",
    details:
      "Without --from the database is empty. With it, the content of an SQLite file is taken as one consistent " +
      "copy, also while programs write to it, and checked by SQLite.",
    positionals: [{ name: "db", kind: "database", help: "Name of the new database" }],
    flags: [
      file("from FILE", "Start with the content of an SQLite file"),
      on("force", "Take a damaged file as it is"),
    ],
    examples: [
      { words: "create shop", why: "An empty database" },
      { words: "create shop --from shop.db", why: "A copy of an existing one" },
    ],
    makes_store: true,
    uses: "store",
    needs(plan) {
      const from = plan.flags.from;
      if (typeof from !== "string") return storeNeeds(plan);
      // SQLite reads a database together with its -wal and -shm files.
      const files = [from, `${from}-wal`, `${from}-shm`, `${from}-journal`];
      return unionOf(storeNeeds(plan), { read: files });
    },
  },
  {
    name: "checkout",
    summary: "Make a branch's database file and print its path",
    details:
      "With a checkpoint or another point in the address, or --at, the file is read-only and shared; without, it is the " +
      "branch's writable file. A file that is up to date is kept as it is.",
    positionals: [{ name: "address", kind: "address", help: "<db>[@<branch>][@<point>]" }],
    flags: [AT, on("force", "Give up local edits that were never checkpointed"), WAIT],
    examples: [
      { words: "checkout shop", why: "The writable file of shop@main" },
      { words: "checkout shop@main@v1", why: "The database as it was at checkpoint v1, read-only" },
    ],
    output: "data",
  },
  {
    name: "path",
    summary: "Print the path of a branch's database file",
    positionals: [{ name: "address", kind: "address", help: "<db>[@<branch>][@<point>]" }],
    examples: [{ words: "path shop@try", why: "For scripts: sqlite3 $(taskd path shop@try)" }],
    output: "data",
    ...ON_STORE,
  },
  {
    name: "fork",
    summary: "Make a new branch of a branch",
    positionals: [
      { name: "address", kind: "address", help: "Where to start: <db>[@<branch>][@<point>]" },
      { name: "new-branch", kind: "name", help: "Name of the new branch" },
    ],
    flags: [
      AT,
      duration("ttl", "The branch expires this long after its last touch", { minimum: 1 }),
      MATERIALIZE,
    ],
    examples: [
      { words: "fork shop try", why: "shop@try, from the head of shop@main" },
      { words: "fork shop@main try --at v1 --ttl 24h", why: "From checkpoint v1, gone a day after its last use" },
      { words: "fork shop before --at 15m", why: "As it was 15 minutes ago, while applications go on with shop" },
    ],
  },
  {
    name: "promote",
    summary: "Make another branch show what this branch holds",
    details: "What the other branch held is kept as <branch>-pre-promote unless --no-safety is given.",
    positionals: [BRANCH],
    flags: [text("onto BRANCH", "The branch that changes", { required: true }), ...REPOINTING],
    examples: [{ words: "promote shop@try --onto main", why: "The experiment becomes main" }],
  },
  {
    name: "merge",
    summary: "Bring what one branch changed into another that went on",
    details:
      "Row by row and cell by cell, against the newest point that both have: where one was forked from the other, or " +
      "their last merge. It goes in as one ordinary transaction, which applications survive that have the file open, " +
      "also under a live session. What both sides changed differently is shown, and nothing is changed until it is " +
      "decided; the exit status is 1 then. Triggers of the target do not fire: what they do has been done in the source.",
    positionals: [{ name: "source", kind: "address", help: "What to merge: <db>[@<branch>][@<point>]" }],
    flags: [text("into BRANCH", "The branch that changes", { required: true }), AT, ...MERGE_FLAGS],
    examples: [
      { words: "merge shop@try --into main --check", why: "What it would change, and what is in conflict" },
      { words: "merge shop@try --into main", why: "The rows that try changed, beside what main's application wrote" },
      { words: "merge shop@main --into try", why: "The other direction: bring try up to date" },
      { words: "merge shop@try --into main --prefer theirs", why: "Where both changed a value, that of try" },
    ],
    needs: mergeNeeds,
  },
  {
    name: "revert",
    summary: "Take a merge back, and leave what came since",
    details:
      "The inverse of the merge is merged: what applications wrote after it stays, and a row that was changed again is " +
      "a conflict, as with merge. Without the name of a merge it is the newest that is not taken back.",
    positionals: [BRANCH, {
      name: "merge",
      kind: "word",
      optional: true,
      help: "The merge, as merge and --list show it",
    }],
    flags: [on("list", "Show the merges into the branch, newest first, and change nothing"), ...MERGE_FLAGS],
    examples: [
      { words: "revert shop --list", why: "The merges into shop@main" },
      { words: "revert shop", why: "Take the last one back" },
      { words: "revert shop 3f2a91c0", why: "Take this one back, whatever was merged since" },
    ],
    needs: mergeNeeds,
  },
  {
    name: "reset",
    summary: "Make a branch hold what its parent holds",
    details:
      "The parent is the branch it was forked from. What the branch held is kept as <branch>-pre-promote unless " +
      "--no-safety is given.",
    positionals: [BRANCH],
    flags: REPOINTING,
    examples: [{ words: "reset shop@try", why: "shop@try begins again, from the head of shop@main" }],
  },
  {
    name: "destroy",
    summary: "Remove a branch",
    details:
      "What it held, edits in its file too, is kept as <branch>-pre-destroy unless --no-safety is given; taskd undo " +
      "brings it back. A terminal is asked about main, a protected branch and one with edits that were never " +
      "checkpointed; elsewhere these need --yes. A protected branch needs --force as well. While an application has the file open the branch is not destroyed.",
    positionals: [{ ...BRANCH, help: "The branch, <db>@<branch>; main too has to be named", named: true }],
    flags: [
      on("force", "Also when the branch is protected"),
      on("yes", "Ask nothing: main, edits, and with --force a protected branch"),
      SAFETY,
      SAFETY_TTL,
      WAIT,
    ],
    examples: [
      { words: "destroy shop@try", why: "Remove the branch try" },
      { words: "destroy shop@main --yes --wait 10s", why: "In a script: main, once its file is closed" },
    ],
  },
  {
    name: "undo",
    summary: "Take back the last destroy, rollback, promote, repair or merge",
    details:
      "The branch shows again what it held before; what the operation had put there is kept as <branch>-pre-undo. " +
      "A further undo takes back the operation before that one. A merge is taken out as revert does it, and what came since stays. What was there before is kept for 7 days unless " +
      "--safety-ttl said otherwise.",
    positionals: [BRANCH],
    flags: [on("list", "Show what can be taken back, newest first, and change nothing"), ...REPOINTING],
    examples: [
      { words: "undo shop@try", why: "The branch that was just destroyed, rolled back or replaced, as it was" },
      { words: "undo shop --list", why: "What can be taken back on shop@main" },
    ],
  },
  {
    name: "touch",
    summary: "Start a branch's time to live anew, or say how long its points are kept",
    positionals: [BRANCH],
    flags: [duration("ttl", "Set the time to live; 0 removes it"), {
      ...KEEP,
      help: `${KEEP.help}; default: as the store's`,
    }],
    examples: [
      { words: "touch shop@try", why: "It lives another full span" },
      { words: "touch shop@try --ttl 0", why: "It never expires" },
      { words: "touch shop --keep 7d,1h:90d", why: "Go back to any point of a week, and to any hour of three months" },
    ],
  },
  {
    name: "protect",
    summary: "Refuse to destroy a branch",
    positionals: [BRANCH],
    examples: [{ words: "protect shop", why: "Only destroy --force removes shop@main" }],
  },
  {
    name: "unprotect",
    summary: "Allow a branch to be destroyed again",
    positionals: [BRANCH],
    examples: [{ words: "unprotect shop", why: "Undo protect" }],
  },
]);
