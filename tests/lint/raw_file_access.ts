/**
 * Rule `taskd/raw-file-access`: only a short list of modules may open files.
 *
 * POSIX drops every lock a process holds on a file when it closes any descriptor
 * of that file. A stray `Deno.readFile` of a checkout would therefore end SQLite's
 * locks on it, and the next client to leave would delete the WAL that a session is
 * reading. One module owns access to checkouts; the others below open files that
 * SQLite never has open.
 */

import { destructured, memberName } from "./_member.ts";
import { isTestCode, projectPath } from "./_project_path.ts";
import { visitSpecifiers } from "./_specifiers.ts";

/** Who may open files and why; a name ending in `/` is a folder. */
const RAW_FILE_ACCESS: Readonly<Record<string, string>> = {
  "lib/sqlite/checkout_file.ts": "owns every byte of access to checkouts",
  "lib/backend/": "the objects of a store, which SQLite never opens in place",
  "lib/_socket_staging.ts": "a directory, open for its lock",
  "lib/fs.ts": "durable writes of small files, none of them a database",
  "lib/rotated_file.ts": "logs, none of them a database",
  "lib/sqlite/hot_journal.ts": "the first byte of a rollback journal, on which SQLite keeps no lock",
  "lib/store/daemon_lock.ts": "the daemon's lock file, which no database is",
  "lib/store/checkouts.ts": "clones of immutable cache entries, to names that no process has open yet",
  "lib/store/materialize.ts": "databases being built, under names that no process has open yet",
  "lib/store/chain_cache.ts": "clones of its own immutable entries, to names that no process has open yet",
  "lib/store/workspace.ts": "sidecars beside a checkout, none of them a database",
  "broker/settings/private_file.ts": "configuration and credential files, none of them a database",
  "broker/agent/work_tree.ts": "files of a task's work folder, read and written in a process that has no other",
  "broker/admission/": "the ledger of the global ceiling, which no database is",
  "cli/commands/_instruction.ts": "a file of text that a person names, read by a client that opens no database",
  "broker/cache/": "entries of the dependency cache and their locks, none of them a database",
  "broker/engine/profile/setup_log.ts": "the log of a setup phase, which no database is",
  "broker/sandbox/images/": "texts that images are built from, in a folder of their own",
  "broker/sandbox/bubblewrap/": "the first lines of programs, reports of bwrap, and a forwarder's text, no database",
  "broker/databases/": "copies of databases that a sandbox had, which no connection of this process has open",
  "broker/git/history.ts": "the list of commits whose parents a staged repository leaves out, no database",
  "broker/git/mirrors.ts": "locks and packs of mirrors, no database",
  "broker/egress/refused_names.ts": "the log of the proxy, no database",
  "broker/engine/kept_files.ts": "diffs and briefs of tasks, none of them a database",
  "cli/redteam/": "hostile trees and records in a scratch folder of its own, none of them a database",
  "broker/engine/queue/": "items of the queue, none of them a database",
  "broker/task/": "traces of tasks and their index, none of them a database",
  "cli/demo/broker_home.ts": "configuration, traces and logs of the demo's own broker, none of them a database",
  "cli/demo/repository.ts": "source files of a repository, and a file of decisions",
  "lib/store/holder.ts": "locked files that are a process's sign of life, none of them a database",
};

/** Functions of `Deno` that open the file they are given. */
const OPENERS = new Set([
  "open",
  "create",
  "readFile",
  "readTextFile",
  "writeFile",
  "writeTextFile",
  "copyFile",
  "truncate",
].flatMap((name) => [name, `${name}Sync`]));

/** Modules whose functions open files; those of `@std/fs` that open none are imported by their own names. */
const FS_MODULES = new Set([
  ...["fs", "fs/promises", "node:fs", "node:fs/promises"],
  ...["@std/fs", "@std/fs/copy", "@std/fs/ensure-file", "@std/fs/move"],
]);

const HINT = "Use lib/fs.ts, or lib/sqlite/checkout_file.ts for a checkout: closing a descriptor drops SQLite's locks";

function mayOpenFiles(path: string): boolean {
  return isTestCode(path) || path.startsWith("std/") ||
    Object.keys(RAW_FILE_ACCESS).some((entry) => entry.endsWith("/") ? path.startsWith(entry) : path === entry);
}

/** The rule. */
export const rawFileAccess: Deno.lint.Rule = {
  create(context) {
    const path = projectPath(context.filename);
    if (mayOpenFiles(path)) return {};
    const report = (what: string, node: Deno.lint.Node) =>
      context.report({ node, message: `${what} opens a file, and ${path} may not`, hint: HINT });
    return {
      ...visitSpecifiers((specifier, node) => {
        if (FS_MODULES.has(specifier)) report(specifier, node);
      }),
      MemberExpression(node) {
        const name = memberName(node);
        const onDeno = node.object.type === "Identifier" && node.object.name === "Deno";
        if (onDeno && name !== undefined && OPENERS.has(name)) report(`Deno.${name}`, node);
      },
      VariableDeclarator(node) {
        for (const name of destructured(node, "Deno")) if (OPENERS.has(name)) report(`Deno.${name}`, node);
      },
    };
  },
};
