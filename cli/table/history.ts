/** The commands that change a branch's history, and those that inspect it. */

import type { CommandSpec } from "../plan/command_spec.ts";
import { unionOf } from "../plan/permissions.ts";
import { bucketNeeds, directoryNeeds, socketNeeds, storeNeeds } from "../plan/needs.ts";
import { AT, BRANCH, KEEP, POINT_HELP, REPOINTING, WAIT } from "./_branch_flags.ts";
import { bytes, commands, duration, integer, on, ON_BRANCHES, ON_STORE, store, text } from "./_row.ts";

export const HISTORY_COMMANDS: readonly CommandSpec[] = commands("History", { ...ON_BRANCHES, output: "note" }, [
  {
    name: "checkpoint",
    summary: "Store a branch's database and name that point",
    details:
      "Under a live session it stores the pages that are new. Without one nothing says which those are, so the " +
      "whole database is stored again when anything in it has changed.",
    positionals: [BRANCH, { name: "checkpoint", kind: "name", help: "Name of the checkpoint" }],
    flags: [text("note TEXT", "A remark that is kept with the checkpoint")],
    examples: [{ words: 'checkpoint shop v1 --note "before the import"', why: "Name the current content v1" }],
  },
  {
    name: "rollback",
    summary: "Take a branch back to a checkpoint or another earlier point",
    details: "What the branch held is kept as <branch>-pre-rollback unless --no-safety is given.",
    positionals: [BRANCH],
    flags: [text("to POINT", `Where to go back to: ${POINT_HELP}`, { required: true }), ...REPOINTING],
    examples: [
      { words: "rollback shop --to v1", why: "shop@main shows checkpoint v1 again" },
      { words: "rollback shop --to age:15m", why: "What it held 15 minutes ago" },
    ],
  },
  {
    name: "compact",
    summary: "Rewrite a branch as one snapshot of its own",
    positionals: [BRANCH],
    examples: [{ words: "compact shop@try", why: "Its storage becomes materialized, its chain one object" }],
  },
  {
    name: "export",
    summary: "Write a branch, a checkpoint or another point to an SQLite file",
    details: "A live session of the branch is flushed first.",
    positionals: [
      { name: "address", kind: "address", help: "<db>[@<branch>][@<point>]" },
      { name: "file", kind: "file", help: "The file to write" },
    ],
    flags: [AT, on("force", "Replace a file that exists"), WAIT],
    examples: [{ words: "export shop@main@v1 v1.db", why: "A plain copy of checkpoint v1" }],
    // The daemon may write nowhere but its store, so this process writes the file: under a temporary name first, and
    // without the companions that a replaced file may have.
    needs(plan) {
      const file = plan.positionals.file ?? "";
      const files = ["", ".partial", "-wal", "-shm", "-journal"].map((suffix) => `${file}${suffix}`);
      const store = unionOf(storeNeeds(plan), { read: files, write: files });
      return plan.route === "socket" ? unionOf(store, socketNeeds(plan)) : store;
    },
  },
]);

export const INSPECT_COMMANDS: readonly CommandSpec[] = commands("Inspect", ON_BRANCHES, [
  {
    name: "log",
    summary: "List the points of a branch that can be gone back to",
    details:
      "Newest first, with what the object that ends there holds. Every flush is a point until garbage collection " +
      "deletes what it needs; a checkpoint stays.",
    positionals: [BRANCH],
    flags: [
      integer("limit N", "How many points at most, up to 1000", { default: "50", minimum: 1 }),
      text("after PLACE", "Go on where the part before ended"),
    ],
    examples: [{ words: "log shop", why: "What fork --at, diff --at and rollback --to can name of shop@main" }],
  },
  {
    name: "diff",
    summary: "Compare two branches or checkpoints: definitions, settings, rows",
    details: "Counts first. Docs: docs/reference/comparison.md has what a comparison says and promises.",
    positionals: [
      { name: "a", kind: "address", help: "The earlier side: <db>[@<branch>][@<point>]" },
      { name: "b", kind: "address", optional: true, help: "The later side; what <a> holds now when absent" },
    ],
    flags: [
      { ...AT, help: `Take the earlier side as it was then: ${POINT_HELP}` },
      text("table NAME", "Rows of this table only; may be repeated", { repeatable: true }),
      integer("rows N", "Show the first N removed, added and changed rows of each table", { default: "0" }),
      on("all", "Show every row that differs, as they are found"),
      on("whole", "Show values and lines whole, up to 16 MiB each"),
    ],
    examples: [
      { words: "diff shop@main shop@try --table orders --rows 5", why: "Counts, and five rows of orders" },
      { words: "diff shop --at 15m", why: "What has changed in 15 minutes" },
    ],
  },
  {
    name: "gc",
    summary: "Delete stored objects that no branch reaches",
    details:
      "An object that is found to be unreachable is marked, and deleted by a later pass once its grace period is " +
      "over and it is still unreachable. A pass that cannot read everything deletes nothing.",
    flags: [
      duration("grace", "How long such an object is kept", { default: "15m" }),
      KEEP,
      on("dry-run", "Say what would be done and change nothing"),
    ],
    examples: [
      { words: "gc --dry-run", why: "See how much there is to collect" },
      { words: "gc --grace 0", why: "Delete what the last pass marked" },
    ],
  },
  {
    name: "copy-store",
    summary: "Copy a whole store to another place, and prove the copy",
    details:
      "Between directories and buckets, in either direction. Stop the daemon first: what is written meanwhile is not " +
      "copied. Everything is read against its checksums; what is damaged ends the copy before it can be opened. A copy " +
      "that was cut off cannot be opened either; the same call goes on where it was. Buckets on both sides are on one " +
      "server.",
    positionals: [
      { name: "source", kind: "store", help: "The store: a directory, file:///path or s3://bucket/prefix" },
      { name: "target", kind: "store", help: "An empty place, or one with the beginning of the same copy" },
    ],
    flags: [on("allow-damaged", "Finish the copy although some of it is damaged, and say what; exit status 1")],
    examples: [{ words: "copy-store ~/.taskd/store s3://backups/taskd", why: "Move a store to a bucket, or back" }],
    output: "note",
    uses: "stores",
    needs(plan) {
      const ends = [plan.positionals.source ?? "", plan.positionals.target ?? ""];
      return unionOf(bucketNeeds(plan), ...ends.filter((end) => !end.startsWith("s3:")).map(directoryNeeds));
    },
  },
  {
    name: "verify",
    summary: "Prove that a branch can be restored",
    details: "Reads every object that the branch and its checkpoints need against its checksums, each object once; " +
      "rebuilds the head and runs SQLite's integrity check on it; compares cached files with what they are copies of. " +
      "Exit status 1 when anything is wrong.",
    positionals: [{ name: "address", kind: "address", optional: true, help: "<db>[@<branch>][@<checkpoint>]" }],
    flags: [
      on("all", "Every branch of every database"),
      on("fast", "Compare stored checksums alone, and rebuild nothing"),
    ],
    examples: [
      { words: "verify shop", why: "Check shop@main and its checkpoints" },
      { words: "verify --all --fast", why: "Read the whole store through its checksums" },
    ],
    ...ON_STORE,
  },
  {
    name: "repair",
    summary: "Bring back what is damaged, from whatever proves itself",
    details:
      "For each damaged object: its own undamaged parts, cached files, checkouts, other branches, or --from; a " +
      "checksum proves the result. A branch for which nothing does goes back to its newest sound point, what it was is " +
      "kept as <branch>-pre-repair, and the report says which transactions are lost. Whatever is replaced is kept below " +
      "damaged/ in the store. Exit status 1 when something was lost.",
    positionals: [{ ...BRANCH, optional: true }],
    flags: [
      on("all", "Every branch of every database"),
      store("from STORE", "Another copy of the store: a directory or s3://bucket/prefix"),
      on("dry-run", "Say what would be done and change nothing"),
    ],
    examples: [
      { words: "repair --all --dry-run", why: "See what can be brought back" },
      { words: "repair shop --from /backups/monday", why: "Take what is lost from a backup" },
    ],
    uses: "store",
    needs(plan) {
      const { from } = plan.flags;
      const directory = typeof from === "string" && !from.startsWith("s3:") ? [from] : [];
      return unionOf(storeNeeds(plan), { read: directory });
    },
  },
  {
    name: "status",
    summary: "Show a branch in depth, or all branches in short",
    positionals: [{ ...BRANCH, optional: true }],
    flags: [bytes("ro-cache-budget", "Show the read-only cache's use against this size; changes nothing")],
    examples: [{ words: "status shop@try", why: "State, storage, checkpoints and sizes of shop@try" }],
  },
  {
    name: "branches",
    summary: "List branches with their states",
    positionals: [{ name: "db", kind: "database", optional: true, help: "Only this database" }],
    examples: [{ words: "branches shop", why: "The branches of shop" }],
  },
  {
    name: "databases",
    summary: "List databases",
    examples: [{ words: "databases", why: "Every database of the store" }],
  },
  {
    name: "lease",
    summary: "Show who holds a branch",
    positionals: [BRANCH],
    examples: [{ words: "lease shop", why: "Holder, epoch and expiry of shop@main" }],
  },
]);
