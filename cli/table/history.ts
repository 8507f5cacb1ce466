/**
 * The commands that change a branch's history, and those that inspect it.
 */

import type { CommandSpec } from "../plan/command_spec.ts";
import { NO_PERMISSIONS, unionOf } from "../plan/permissions.ts";
import { branchNeeds, bucketNeeds, directoryNeeds, socketNeeds, storeNeeds } from "../plan/needs.ts";
import { BRANCH, MATERIALIZE, ON_BRANCHES, REOPEN, SAFETY, SAFETY_TTL } from "./_shared.ts";

export const HISTORY_COMMANDS: readonly CommandSpec[] = [
  {
    name: "checkpoint",
    group: "History",
    summary: "Store a branch's database and name that point",
    positionals: [BRANCH, { name: "checkpoint", kind: "name", help: "Name of the checkpoint" }],
    flags: [{ name: "note", kind: "string", value: "TEXT", help: "A remark that is kept with the checkpoint" }],
    examples: [{ words: 'checkpoint shop v1 --note "before the import"', why: "Name the current content v1" }],
    output: "note",
    ...ON_BRANCHES,
  },
  {
    name: "rollback",
    group: "History",
    summary: "Take a branch back to a checkpoint",
    details: "What the branch held is kept as <branch>-pre-rollback unless --no-safety is given.",
    positionals: [BRANCH],
    flags: [
      { name: "to", kind: "string", value: "CHECKPOINT", required: true, help: "The checkpoint to go back to" },
      MATERIALIZE,
      SAFETY,
      SAFETY_TTL,
      REOPEN,
    ],
    examples: [{ words: "rollback shop --to v1", why: "shop@main shows checkpoint v1 again" }],
    output: "note",
    ...ON_BRANCHES,
  },
  {
    name: "compact",
    group: "History",
    summary: "Rewrite a branch as one snapshot of its own",
    positionals: [BRANCH],
    flags: [],
    examples: [{ words: "compact shop@try", why: "Its storage becomes materialized, its chain one object" }],
    output: "note",
    ...ON_BRANCHES,
  },
  {
    name: "export",
    group: "History",
    summary: "Write a branch or checkpoint to an SQLite file",
    details: "A live session of the branch is flushed first.",
    positionals: [
      { name: "address", kind: "address", help: "<db>[@<branch>][@<checkpoint>]" },
      { name: "file", kind: "file", help: "The file to write" },
    ],
    flags: [{ name: "force", kind: "boolean", help: "Replace a file that exists" }],
    examples: [{ words: "export shop@main@v1 v1.db", why: "A plain copy of checkpoint v1" }],
    output: "note",
    uses: "branches",
    // The daemon may write nowhere but its store, so this process writes the file: under a temporary name first, and
    // without the companions that a replaced file may have.
    needs(plan) {
      const file = plan.positionals.file ?? "";
      const files = ["", ".partial", "-wal", "-shm", "-journal"].map((suffix) => `${file}${suffix}`);
      const store = unionOf(storeNeeds(plan), { ...NO_PERMISSIONS, read: files, write: files });
      return plan.route === "socket" ? unionOf(store, socketNeeds(plan)) : store;
    },
  },
  {
    name: "diff",
    group: "Inspect",
    summary: "Compare the rows of two branches or checkpoints",
    positionals: [
      { name: "a", kind: "address", help: "The earlier side: <db>[@<branch>][@<checkpoint>]" },
      { name: "b", kind: "address", help: "The later side" },
    ],
    flags: [
      { name: "table", kind: "string", value: "NAME", repeatable: true, help: "Only this table; may be repeated" },
      {
        name: "rows",
        kind: "integer",
        value: "N",
        default: "0",
        help: "Show the first N differing rows of each table",
      },
    ],
    examples: [{ words: "diff shop@main shop@try --table orders --rows 5", why: "Counts, and five rows of orders" }],
    output: "data",
    ...ON_BRANCHES,
  },
  {
    name: "gc",
    group: "Inspect",
    summary: "Delete stored objects that no branch reaches",
    details:
      "An object that is found to be unreachable is marked, and deleted by a later pass once its grace period is " +
      "over and it is still unreachable. A pass that cannot read everything deletes nothing.",
    positionals: [],
    flags: [
      { name: "grace", kind: "duration", value: "DURATION", default: "15m", help: "How long such an object is kept" },
      { name: "dry-run", kind: "boolean", help: "Say what would be done and change nothing" },
    ],
    examples: [
      { words: "gc --dry-run", why: "See how much there is to collect" },
      { words: "gc --grace 0", why: "Delete what the last pass marked" },
    ],
    output: "data",
    ...ON_BRANCHES,
  },
  {
    name: "copy-store",
    group: "Inspect",
    summary: "Copy a whole store to another place, and prove the copy",
    details:
      "Between directories and buckets, in either direction. Stop the daemon first: what is written meanwhile is not " +
      "copied. A copy that was cut off cannot be opened; the same call goes on where it was. Buckets on both sides are " +
      "on one server.",
    positionals: [
      { name: "source", kind: "store", help: "The store: a directory, file:///path or s3://bucket/prefix" },
      { name: "target", kind: "store", help: "An empty place, or one with the beginning of the same copy" },
    ],
    flags: [],
    examples: [{ words: "copy-store ~/.taskd/store s3://backups/taskd", why: "Move a store to a bucket, or back" }],
    output: "note",
    uses: "stores",
    needs(plan) {
      const ends = [plan.positionals.source ?? "", plan.positionals.target ?? ""];
      return ends.filter((end) => !end.startsWith("s3:")).map(directoryNeeds).reduce(unionOf, bucketNeeds(plan));
    },
  },
  {
    name: "verify",
    group: "Inspect",
    summary: "Prove that a branch can be restored",
    details: "Reads every stored object against its checksums, rebuilds the database and runs SQLite's integrity " +
      "check on it. Exit status 1 when anything is wrong.",
    positionals: [{ name: "address", kind: "address", optional: true, help: "<db>[@<branch>][@<checkpoint>]" }],
    flags: [{ name: "all", kind: "boolean", help: "Every branch of every database" }],
    examples: [{ words: "verify shop", why: "Check shop@main" }, {
      words: "verify --all",
      why: "Check the whole store",
    }],
    output: "data",
    uses: "store",
    needs: storeNeeds,
  },
  {
    name: "status",
    group: "Inspect",
    summary: "Show a branch in depth, or all branches in short",
    positionals: [{ ...BRANCH, optional: true }],
    flags: [
      {
        name: "ro-cache-budget",
        kind: "bytes",
        value: "BYTES",
        help: "Show the read-only cache's use against this size; changes nothing",
      },
    ],
    examples: [{ words: "status shop@try", why: "State, storage, checkpoints and sizes of shop@try" }],
    output: "data",
    uses: "branches",
    // This process measures the cache, even where the daemon lists the branches.
    needs(plan) {
      const needs = branchNeeds(plan);
      if (plan.flags["ro-cache-budget"] === null) return needs;
      return unionOf(needs, { ...NO_PERMISSIONS, read: [`${plan.workspace}/checkouts-ro`] });
    },
  },
  {
    name: "branches",
    group: "Inspect",
    summary: "List branches with their states",
    positionals: [{ name: "db", kind: "database", optional: true, help: "Only this database" }],
    flags: [],
    examples: [{ words: "branches shop", why: "The branches of shop" }],
    output: "data",
    ...ON_BRANCHES,
  },
  {
    name: "databases",
    group: "Inspect",
    summary: "List databases",
    positionals: [],
    flags: [],
    examples: [{ words: "databases", why: "Every database of the store" }],
    output: "data",
    ...ON_BRANCHES,
  },
  {
    name: "lease",
    group: "Inspect",
    summary: "Show who holds a branch",
    positionals: [BRANCH],
    flags: [],
    examples: [{ words: "lease shop", why: "Holder, epoch and expiry of shop@main" }],
    output: "data",
    ...ON_BRANCHES,
  },
];
