/**
 * Promises about git: nothing that an agent leaves in its work tree runs on the host, or is hidden from who approves.
 */

import { ensureDir } from "@std/fs/ensure-dir";
import { exists } from "@std/fs/exists";
import { dirname } from "@std/path/dirname";
import { Git } from "../../broker/git/git.ts";
import type { DiffFacts } from "../../broker/git/diff_facts.ts";
import type { FlagCategory } from "../../broker/git/flags.ts";
import { parseRepo } from "../../broker/git/repo_url.ts";
import { type StagedRepository, stageRepository } from "../../broker/git/staged_repository.ts";
import { makeRepository } from "./make_repository.ts";
import { makeHardLink, makeLink, makePipe } from "./_special_files.ts";
import type { RedteamContext } from "./context.ts";
import { DECEIVING_NAMES, DOT_GIT_SPELLINGS, HIDING_ATTRIBUTES, UNUSUAL_NAMES } from "./inputs/git.ts";
import type { SecurityPromise } from "./security_promise.ts";

/** Milliseconds to collect the facts of one tree. */
const FACTS_MS = 20_000;

/** A staged repository of a task, and the folder above it. */
interface Site {
  root: string;
  staged: StagedRepository;
  /** What the host establishes about the tree. */
  facts(): Promise<DiffFacts>;
  write(path: string, content: string): Promise<void>;
}

async function site(context: RedteamContext): Promise<Site> {
  const root = await context.folder();
  await Deno.mkdir(`${root}/home`);
  const git = new Git({ home: `${root}/home`, clock: context.clock, places: context.options.programs?.git });
  const url = parseRepo(await makeRepository(git, root));
  const staged = await stageRepository(git, { url, git_dir: `${root}/git`, work_tree: `${root}/work` });
  return {
    root,
    staged,
    facts: () => context.surfaces.collectFacts(git, { ...staged, deadline_ms: FACTS_MS }),
    write: async (path, content) => {
      const full = `${staged.work_tree}/${path}`;
      await ensureDir(dirname(full));
      await Deno.writeTextFile(full, content);
    },
  };
}

function paths({ files }: DiffFacts): string[] {
  return files.map(({ path }) => path);
}

function flagged({ flags }: DiffFacts, category: FlagCategory): string[] {
  return flags.filter((flag) => flag.category === category).map(({ path }) => path);
}

export const GIT_PROMISES: readonly SecurityPromise[] = [
  {
    id: "git.programs",
    promise: "Nothing in a work tree makes the host's git run a program",
    attacks:
      "Hooks, fsmonitor, filters, textconv, external diffs and sshCommand, of the tree and of repositories in it",
    async run(trial, context) {
      const { root, staged, facts, write } = await site(context);
      const [mark, evil] = [`${root}/ran`, `${root}/evil.sh`];
      await Deno.writeTextFile(evil, `#!/bin/sh\ntouch ${mark}\ncat\n`, { mode: 0o755 });
      const settings = `[core]\n\trepositoryformatversion = 0\n\tfsmonitor = ${evil}\n\thooksPath = ${root}\n` +
        `\tsshCommand = ${evil}\n[filter "evil"]\n\tclean = ${evil}\n\tprocess = ${evil}\n\trequired\n` +
        `[diff]\n\texternal = ${evil}\n[diff "evil"]\n\ttextconv = ${evil}\n[include]\n\tpath = ${evil}\n`;
      for (const folder of [".git", "module/.git"]) {
        await write(`${folder}/HEAD`, "ref: refs/heads/main\n");
        await write(`${folder}/config`, settings);
        await write(`${folder}/objects/info/x`, "");
        await write(`${folder}/refs/heads/x`, "");
        for (const hook of ["pre-commit", "post-index-change", "reference-transaction", "fsmonitor-watchman"]) {
          await write(`${folder}/hooks/${hook}`, await Deno.readTextFile(evil));
          await Deno.chmod(`${staged.work_tree}/${folder}/hooks/${hook}`, 0o755);
        }
      }
      await write(".gitattributes", "* filter=evil diff=evil\n");
      await write("module/x", "y\n");
      await write("README.md", "changed\n");
      const found = await facts();
      trial.attempt("a program that any of them names", !await exists(mark), "it ran");
      trial.none("files of the repositories' own", paths(found).filter((path) => path.includes(".git/")));
      for (const folder of [".git", "module/.git"]) {
        trial.attempt(folder, flagged(found, "nested_git").includes(folder), "it is not flagged");
      }
      trial.control("an ordinary change", paths(found).includes("README.md"), paths(found).join(", "));
    },
  },
  {
    id: "git.attributes",
    promise: "No attribute hides a file, a line or a byte from the facts that a change is approved by",
    attacks:
      "-diff, binary, export-ignore, filters, encodings and line endings, of the tree and of a folder in it; a NUL",
    async run(trial, context) {
      const { facts, write } = await site(context);
      await write(".gitattributes", HIDING_ATTRIBUTES);
      await write("sub/.gitattributes", "* -diff binary working-tree-encoding=UTF-16\n");
      await write("a.js", "1\n$Id$\n3\n");
      await write("sub/b.js", "x\r\ny\n");
      await write("nul.js", "\0\n1\n2\n");
      const found = await facts();
      const lines = new Map(found.files.map(({ path, added }) => [path, added]));
      for (const [path, added] of [["a.js", 3], ["sub/b.js", 2], ["nul.js", 3], [".gitattributes", 3]] as const) {
        trial.expect(`lines of ${path}`, lines.get(path), String(added));
      }
      trial.attempt("the attributes themselves", flagged(found, "git_settings").length === 2, "they are not flagged");
    },
  },
  {
    id: "git.dot_git",
    promise: "No spelling of .git, and no link in the place of git's own files, gets into a change",
    attacks: "Upper case, trailing dots and spaces, short names, streams, invisible letters, links as .gitmodules",
    async run(trial, context) {
      const { staged, facts, write } = await site(context);
      for (const [at, name] of DOT_GIT_SPELLINGS.entries()) {
        await write(`d${at}/${name}/hooks/pre-commit`, "evil");
        await write(`d${at}/fine`, "fine\n");
      }
      await write("a\\.git\\config", "evil");
      await makeLink("/etc/passwd", `${staged.work_tree}/.gitmodules`);
      const found = await facts();
      for (const [at, name] of DOT_GIT_SPELLINGS.entries()) {
        const inside = paths(found).filter((path) => path.startsWith(`d${at}/`) && path !== `d${at}/fine`);
        trial.none(JSON.stringify(name), inside);
        const is_flagged = flagged(found, "nested_git").includes(`d${at}/${name}`);
        trial.attempt(`a flag for ${JSON.stringify(name)}`, is_flagged, "none");
        trial.control(`the file beside ${JSON.stringify(name)}`, paths(found).includes(`d${at}/fine`));
      }
      trial.attempt("a name with backslashes", !paths(found).includes("a\\.git\\config"));
      trial.attempt("a link as .gitmodules", !paths(found).includes(".gitmodules"));
    },
  },
  {
    id: "git.special_files",
    promise: "Pipes, sockets and links are never opened or followed, and second names are flagged",
    attacks: "A pipe and a socket in the tree, a pipe as .gitignore, links out of the tree, a hard link",
    async run(trial, context) {
      const { root, staged, facts, write } = await site(context);
      const work = staged.work_tree;
      await Deno.writeTextFile(`${root}/secret.txt`, "of the host\n");
      await makePipe(`${work}/pipe`);
      await makeLink(`${root}/secret.txt`, `${work}/link`);
      await makeLink("/", `${work}/folder`);
      await write("one", "x\n");
      await makeHardLink(`${work}/one`, `${work}/two`);
      using _socket = Deno.listen({ transport: "unix", path: `${work}/socket` });
      const found = await facts();
      for (const name of ["pipe", "socket"]) {
        trial.attempt(`a ${name}`, flagged(found, "special_file").includes(name) && !paths(found).includes(name));
      }
      const modes = new Map(found.files.map(({ path, mode_after }) => [path, mode_after]));
      for (const name of ["link", "folder"]) {
        trial.expect(`${name} out of the tree`, `${modes.get(name)}`, "120000");
        trial.attempt(`a flag for ${name}`, flagged(found, "symlink").includes(name), "none");
      }
      trial.attempt("what lies behind the links", !paths(found).some((path) => /^(link|folder)\//.test(path)));
      trial.attempt("a flag for the second name", flagged(found, "hard_link").length === 2, "none");
      const blocked = await site(context);
      await makePipe(`${blocked.staged.work_tree}/.gitignore`);
      const refused = await blocked.facts().then(() => false, () => true);
      trial.attempt("a pipe as .gitignore", refused, "the tree was taken");
    },
  },
  {
    id: "git.names",
    promise: "A name is reported as it is, byte by byte, and one that deceives is flagged",
    attacks: "Line breaks, escape sequences, direction marks, options and pathspecs as names",
    async run(trial, context) {
      const { facts, write } = await site(context);
      for (const name of [...DECEIVING_NAMES, ...UNUSUAL_NAMES]) await write(name, "x\n");
      const found = await facts();
      for (const name of [...DECEIVING_NAMES, ...UNUSUAL_NAMES]) {
        trial.attempt(`${JSON.stringify(name)} in the change`, paths(found).includes(name), "it is missing");
      }
      for (const name of DECEIVING_NAMES) {
        trial.attempt(`a flag for ${JSON.stringify(name)}`, flagged(found, "odd_name").includes(name), "none");
      }
    },
  },
  {
    id: "git.digest",
    promise: "The digest of a change is another for any other content, mode, name or base",
    attacks: "A letter, an executable bit, another name, a further file, on otherwise equal changes",
    async run(trial, context) {
      const digest = async (change: (it: Site) => Promise<void>) => {
        const it = await site(context);
        await it.write("a.txt", "a\n");
        await change(it);
        return (await it.facts()).change_sha256;
      };
      const plain = await digest(() => Promise.resolve());
      trial.control("the digest of an equal change", await digest(() => Promise.resolve()) === plain, "it is another");
      const others: Record<string, (it: Site) => Promise<void>> = {
        "a letter": ({ write }) => write("a.txt", "b\n"),
        "an executable bit": ({ staged }) => Deno.chmod(`${staged.work_tree}/a.txt`, 0o755),
        "another name": ({ staged }) => Deno.rename(`${staged.work_tree}/a.txt`, `${staged.work_tree}/b.txt`),
        "a further file": ({ write }) => write("sub/c.txt", "c\n"),
      };
      for (const [what, change] of Object.entries(others)) {
        trial.attempt(what, await digest(change) !== plain, "the digest is the same");
      }
    },
  },
];
