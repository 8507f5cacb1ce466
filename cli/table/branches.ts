/**
 * The commands that make, change and remove branches.
 */

import type { CommandSpec } from "../plan/command_spec.ts";
import { NO_PERMISSIONS, unionOf } from "../plan/permissions.ts";
import { storeNeeds } from "../plan/needs.ts";
import { BRANCH, MATERIALIZE, ON_BRANCHES, REOPEN, SAFETY, SAFETY_TTL } from "./_shared.ts";

export const BRANCH_COMMANDS: readonly CommandSpec[] = [
  {
    name: "create",
    group: "Branches",
    summary: "Create a database with its branch main",
    details:
      "Without --from the database is empty. With it, the content of an SQLite file is taken as one consistent " +
      "copy, also while programs write to it.",
    positionals: [{ name: "db", kind: "database", help: "Name of the new database" }],
    flags: [{ name: "from", kind: "file", value: "FILE", help: "Start with the content of an SQLite file" }],
    examples: [
      { words: "create shop", why: "An empty database" },
      { words: "create shop --from shop.db", why: "A copy of an existing one" },
    ],
    output: "note",
    uses: "store",
    needs(plan) {
      const from = plan.flags.from;
      if (typeof from !== "string") return storeNeeds(plan);
      // SQLite reads a database together with its -wal and -shm files.
      const files = [from, `${from}-wal`, `${from}-shm`, `${from}-journal`];
      return unionOf(storeNeeds(plan), { ...NO_PERMISSIONS, read: files });
    },
  },
  {
    name: "checkout",
    group: "Branches",
    summary: "Make a branch's database file and print its path",
    details:
      "With a checkpoint in the address the file is read-only and shared; without, it is the branch's writable " +
      "file. A file that is up to date is kept as it is.",
    positionals: [{ name: "address", kind: "address", help: "<db>[@<branch>][@<checkpoint>]" }],
    flags: [{ name: "force", kind: "boolean", help: "Give up local edits that were never checkpointed" }],
    examples: [
      { words: "checkout shop", why: "The writable file of shop@main" },
      { words: "checkout shop@main@v1", why: "The database as it was at checkpoint v1, read-only" },
    ],
    output: "data",
    ...ON_BRANCHES,
  },
  {
    name: "path",
    group: "Branches",
    summary: "Print the path of a branch's database file",
    positionals: [{ name: "address", kind: "address", help: "<db>[@<branch>][@<checkpoint>]" }],
    flags: [],
    examples: [{ words: "path shop@try", why: "For scripts: sqlite3 $(taskd path shop@try)" }],
    output: "data",
    uses: "store",
    needs: storeNeeds,
  },
  {
    name: "fork",
    group: "Branches",
    summary: "Make a new branch of a branch",
    positionals: [
      { name: "address", kind: "address", help: "Where to start: <db>[@<branch>][@<checkpoint>]" },
      { name: "new-branch", kind: "name", help: "Name of the new branch" },
    ],
    flags: [
      { name: "at", kind: "string", value: "CHECKPOINT", help: "Start at this checkpoint instead of the head" },
      {
        name: "ttl",
        kind: "duration",
        value: "DURATION",
        minimum: 1,
        help: "The branch expires this long after its last touch",
      },
      MATERIALIZE,
    ],
    examples: [
      { words: "fork shop try", why: "shop@try, from the head of shop@main" },
      { words: "fork shop@main try --at v1 --ttl 24h", why: "From checkpoint v1, gone a day after its last use" },
    ],
    output: "note",
    ...ON_BRANCHES,
  },
  {
    name: "promote",
    group: "Branches",
    summary: "Make another branch show what this branch holds",
    details: "What the other branch held is kept as <branch>-pre-promote unless --no-safety is given.",
    positionals: [BRANCH],
    flags: [
      { name: "onto", kind: "string", value: "BRANCH", required: true, help: "The branch that changes" },
      MATERIALIZE,
      SAFETY,
      SAFETY_TTL,
      REOPEN,
    ],
    examples: [{ words: "promote shop@try --onto main", why: "The experiment becomes main" }],
    output: "note",
    ...ON_BRANCHES,
  },
  {
    name: "destroy",
    group: "Branches",
    summary: "Remove a branch",
    details: "Its objects stay in the store while another branch needs them.",
    positionals: [{ ...BRANCH, help: "The branch, <db>@<branch>; main too has to be named", named: true }],
    flags: [{ name: "force", kind: "boolean", help: "Also when the branch is protected" }],
    examples: [{ words: "destroy shop@try", why: "Remove the branch try" }],
    output: "note",
    ...ON_BRANCHES,
  },
  {
    name: "touch",
    group: "Branches",
    summary: "Start a branch's time to live anew",
    positionals: [BRANCH],
    flags: [{ name: "ttl", kind: "duration", value: "DURATION", help: "Set the time to live; 0 removes it" }],
    examples: [
      { words: "touch shop@try", why: "It lives another full span" },
      { words: "touch shop@try --ttl 0", why: "It never expires" },
    ],
    output: "note",
    ...ON_BRANCHES,
  },
  {
    name: "protect",
    group: "Branches",
    summary: "Refuse to destroy a branch",
    positionals: [BRANCH],
    flags: [],
    examples: [{ words: "protect shop", why: "Only destroy --force removes shop@main" }],
    output: "note",
    ...ON_BRANCHES,
  },
  {
    name: "unprotect",
    group: "Branches",
    summary: "Allow a branch to be destroyed again",
    positionals: [BRANCH],
    flags: [],
    examples: [{ words: "unprotect shop", why: "Undo protect" }],
    output: "note",
    ...ON_BRANCHES,
  },
];
