/**
 * Repositories and servers that are made to take this host's memory, time and disk: each is refused with what it has too
 * much of, before anything is made of it.
 */

import { assert, assertEquals, assertRejects } from "@std/assert";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "@std/path/join";
import { collectFacts } from "../../../broker/git/diff_facts.ts";
import { parseRepo } from "../../../broker/git/repo_url.ts";
import { stageRepository } from "../../../broker/git/staged_repository.ts";
import { TaskdError } from "../../../lib/errors.ts";
import { GitBench, writeFiles } from "./bench.ts";
import { deltaBomb, noisePack, ObjectWriter } from "./bombs.ts";

const MIB = 1 << 20;

/** Trees by what they are too much of. */
const TREES: Record<string, { make(objects: ObjectWriter): string; says: RegExp }> = {
  "ten entries wrapped seven times: a hundred million files": {
    make: (objects) => objects.wrapped({ mode: "100644", oid: objects.write("blob", new Uint8Array(1)) }, 10, 8),
    says: /more than 1000000 files and folders/,
  },
  "folders alone, with nothing in them": {
    make: (objects) => objects.wrapped({ mode: "40000", oid: objects.tree([]) }, 10, 8),
    says: /more than 1000000 files and folders/,
  },
  "links alone": {
    make: (objects) => objects.wrapped({ mode: "120000", oid: objects.write("blob", new Uint8Array([120])) }, 1_100, 2),
    says: /more than 1000000 files and folders/,
  },
  "a path deeper than any system opens": {
    make: (objects) => objects.wrapped({ mode: "100644", oid: objects.write("blob", new Uint8Array(1)) }, 1, 600),
    says: /a name that no file system takes/,
  },
  "a name longer than any file system has": {
    make: (objects) =>
      objects.tree([{ mode: "100644", name: "n".repeat(300), oid: objects.write("blob", new Uint8Array(1)) }]),
    says: /a name that no file system takes: 300 bytes/,
  },
  "a name of a million bytes": {
    make: (objects) =>
      objects.tree([{ mode: "100644", name: "n".repeat(1e6), oid: objects.write("blob", new Uint8Array(1)) }]),
    says: /a name that no file system takes/,
  },
  "names that are long, all of them": {
    make: (objects) => {
      const oid = objects.write("blob", new Uint8Array(1));
      const long = (n: number) => String(n).padStart(7, "0").padEnd(240, "n");
      const tree = (mode: string, width: number, oid: string) =>
        objects.tree(Array.from({ length: width }, (_, n) => ({ mode, name: long(n), oid })));
      return tree("40000", 900, tree("100644", 1_100, oid));
    },
    says: /more than 256 MiB of names/,
  },
  "one file by many names: more bytes than a disk has": {
    make: (objects) =>
      objects.wrapped({ mode: "100644", oid: objects.write("blob", new Uint8Array(64 * MIB)) }, 600, 1),
    says: /more than 32 GiB of files/,
  },
};

for (const [what, { make, says }] of Object.entries(TREES)) {
  Deno.test(`a tree is refused before an index is made of it: ${what}`, async () => {
    await using bench = await GitBench.start();
    const objects = new ObjectWriter(bench.origin);
    objects.commit(make(objects));
    const { code, message } = await assertRejects(() => bench.stage(), TaskdError);
    assertEquals(code, "too_large", message);
    assert(says.test(message), message);
    const [git_dir, work] = ["git", "work"].map((name) => join(bench.root, "task1", name));
    assertEquals([...Deno.readDirSync(git_dir!)].some(({ name }) => name.startsWith("index")), false);
    assertEquals([...Deno.readDirSync(work!)], []);
  });
}

/** Packets of a server, as git's protocol has them. */
function packet(line: string): string {
  return (line.length + 4).toString(16).padStart(4, "0") + line;
}

/** What a server says of its refs, on and on. */
const SERVERS: Record<string, (n: number) => string> = {
  "refs without end": (n) => packet(`${"1".repeat(40)} refs/heads/b${n}\n`),
  "refs of long names without end": (n) => packet(`${"1".repeat(40)} refs/heads/${n}${"x".repeat(60_000)}\n`),
  "branches that begin like the one that is asked for": (n) =>
    packet(`${"1".repeat(40)} refs/heads/main${n}${"x".repeat(1_000)}\n`),
};

for (const [what, line] of Object.entries(SERVERS)) {
  Deno.test(`a git server's list is refused once it takes more memory than a list may: ${what}`, async () => {
    let sent = 0;
    const flood = async (response: ServerResponse) => {
      response.setMaxListeners(0);
      response.setHeader("content-type", "application/x-git-upload-pack-advertisement");
      response.write(packet("# service=git-upload-pack\n") + "0000");
      response.write(packet(`${"1".repeat(40)} HEAD\0symref=HEAD:refs/heads/main agent=x\n`));
      for (let n = 0; !response.destroyed; n += 1_000) {
        const chunk = Array.from({ length: 1_000 }, (_, at) => line(n + at)).join("");
        sent += chunk.length;
        if (!response.write(chunk)) {
          await new Promise<void>((resolve) => {
            response.once("drain", resolve);
            response.once("close", resolve);
          });
        }
      }
    };
    const server = createServer((_request, response) => void flood(response));
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    await using bench = await GitBench.start();
    try {
      const url = parseRepo(`http://127.0.0.1:${(server.address() as AddressInfo).port}/acme/app`);
      for (const base of [undefined, "main", "1111111"]) {
        const options = { url, git_dir: join(bench.root, "g"), work_tree: join(bench.root, "w") };
        const staged = stageRepository(bench.git, { ...options, ...base === undefined ? {} : { base } });
        const { code, message } = await assertRejects(() => staged, TaskdError);
        assertEquals(code, "too_large", message);
      }
      assert(sent < 6 * 1_024 * MIB, `${sent} bytes were taken`);
    } finally {
      server.closeAllConnections();
      server.close();
    }
  });
}

/** Packs, as a server would send them, and what of git's limits they meet. */
const PACKS: Record<string, { pack: () => Uint8Array; limits?: Parameters<GitBench["git"]["run"]>[1]["limits"] }> = {
  "a delta of a kilobyte that stands for three gigabytes": { pack: () => deltaBomb(8 * MIB, 400) },
  "more bytes than are taken": { pack: () => noisePack(3 * MIB), limits: { file_bytes: MIB } },
};

for (const [what, { pack, limits }] of Object.entries(PACKS)) {
  Deno.test(`a pack ends git and nothing else: ${what}`, async () => {
    await using bench = await GitBench.start();
    const run = {
      repository: { git_dir: bench.origin },
      attempted: "Cannot take the pack",
      signal: undefined,
      stdin: pack(),
      // Where a fetch has it.
      reads_host: true,
      ...limits === undefined ? {} : { limits },
    };
    const { code, message } = await assertRejects(
      () => bench.git.run(["index-pack", "--stdin", "--fix-thin"], run),
      TaskdError,
    );
    assertEquals(code, "too_large", message);
  });
}

Deno.test("a pack within the limits is taken: its bombs are refused for their size alone", async () => {
  await using bench = await GitBench.start();
  for (const stdin of [deltaBomb(MIB, 4), noisePack(MIB)]) {
    const run = { repository: { git_dir: bench.origin }, attempted: "Cannot take the pack", signal: undefined };
    await bench.git.run(["index-pack", "--stdin"], { ...run, stdin, reads_host: true });
  }
});

Deno.test("attributes and ignore lists of many megabytes are read, and change nothing", async () => {
  await using bench = await GitBench.start();
  const staged = await bench.stage();
  const lines = Array.from({ length: 200_000 }, (_, n) => `x${n} a${n % 3_000}=${"v".repeat(40)}\n`).join("");
  await writeFiles(staged.work_tree, {
    ".gitattributes": `${lines}* ${"a".repeat(5_000)}\n*.md -diff\n`,
    "d/.gitignore": Array.from({ length: 100_000 }, (_, n) => `*${n}*x*y*z\n`).join(""),
    "d/README.md": "new\n",
  });
  const { files } = await collectFacts(bench.git, staged);
  assertEquals(files.map(({ path }) => path), [".gitattributes", "d/.gitignore", "d/README.md"]);
});

Deno.test("files with holes are refused by the size that they appear to have, one by one and together", async () => {
  await using bench = await GitBench.start();
  const staged = await bench.stage();
  const hole = async (name: string, bytes: number) => {
    await writeFiles(staged.work_tree, { [name]: "" });
    await Deno.truncate(join(staged.work_tree, name), bytes);
  };
  await hole("huge", 6 * 1_024 * MIB);
  await hole("README.md", 2 * 1_024 * 1_024 * MIB);
  const { files, flags } = await collectFacts(bench.git, staged);
  assertEquals(files, []);
  assertEquals(flags.map(({ category, path }) => [category, path]), [["left_out", "README.md"], ["left_out", "huge"]]);
  for (let n = 0; n < 33; n++) await hole(`d/${n}`, 255 * MIB);
  const { code, message } = await assertRejects(() => collectFacts(bench.git, staged), TaskdError);
  assertEquals(code, "too_large", message);
});
