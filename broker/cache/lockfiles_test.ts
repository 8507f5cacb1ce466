import { assertEquals, assertNotEquals } from "@std/assert";
import { Git } from "../git/git.ts";
import { findLockfiles } from "./lockfiles.ts";

/** A repository with one commit, made by plain git. */
async function commit(fill: (root: string) => Promise<void> | void) {
  const root = await Deno.makeTempDir({ prefix: "taskd-lockfiles-" });
  const run = async (...args: string[]) => {
    const { success, stdout, stderr } = await new Deno.Command("git", {
      args: ["-c", "user.name=t", "-c", "user.email=t@example.com", ...args],
      cwd: `${root}/tree`,
    }).output();
    if (!success) throw new Error(new TextDecoder().decode(stderr));
    return new TextDecoder().decode(stdout).trim();
  };
  await Deno.mkdir(`${root}/tree`);
  await Deno.mkdir(`${root}/home`);
  await run("init", "-q");
  await fill(`${root}/tree`);
  await run("add", "-A");
  await run("commit", "-q", "--allow-empty", "-m", "x");
  return {
    root,
    git: new Git({ home: `${root}/home` }),
    at: { git_dir: `${root}/tree/.git`, commit: await run("rev-parse", "HEAD") },
    [Symbol.asyncDispose]: () => Deno.remove(root, { recursive: true }),
  };
}

const HASH = `--hash=sha256:${"0".repeat(64)}`;

Deno.test("lockfiles are found at every depth, with the digest that git has of their content", async () => {
  await using repo = await commit(async (work) => {
    await Deno.mkdir(`${work}/sub/deep`, { recursive: true });
    await Deno.writeTextFile(`${work}/package-lock.json`, "{}");
    await Deno.writeTextFile(`${work}/sub/deep/go.sum`, "x");
    await Deno.writeTextFile(`${work}/sub/package.json`, "{}");
    await Deno.writeTextFile(`${work}/sub/bücher.lock`, "{}");
  });
  assertEquals(await findLockfiles(repo.git, repo.at), [
    { path: "package-lock.json", digest: "9e26dfeeb6e641a33dae4961196235bdb965b21b" },
    { path: "sub/deep/go.sum", digest: "c1b0730e0133447badcfd47fd144e254807b06e1" },
  ]);
});

Deno.test("a list of requirements is a lockfile when it pins digests", async () => {
  await using repo = await commit(async (work) => {
    await Deno.writeTextFile(`${work}/requirements.txt`, `six==1.16.0 \\\n    ${HASH}\n`);
    await Deno.writeTextFile(`${work}/requirements-dev.txt`, "six==1.16.0\n");
  });
  assertEquals((await findLockfiles(repo.git, repo.at)).map(({ path }) => path), ["requirements.txt"]);
});

Deno.test("a repository without lockfiles has none", async () => {
  await using repo = await commit(() => {});
  assertEquals(await findLockfiles(repo.git, repo.at), []);
});

Deno.test("attack: a link named like a lockfile does not count, since its target is not covered", async () => {
  await using repo = await commit(async (work) => {
    await Deno.writeTextFile(`${work}/anything`, "{}");
    await Deno.symlink("anything", `${work}/yarn.lock`);
  });
  assertEquals(await findLockfiles(repo.git, repo.at), []);
});

Deno.test("attack: what a setup command writes over a lockfile in the work tree does not count", async () => {
  await using repo = await commit((work) => Deno.writeTextFile(`${work}/package-lock.json`, "{}"));
  const before = await findLockfiles(repo.git, repo.at);
  await Deno.writeTextFile(`${repo.root}/tree/package-lock.json`, "other");
  await Deno.writeTextFile(`${repo.root}/tree/yarn.lock`, "new");
  assertEquals(await findLockfiles(repo.git, repo.at), before);
  assertNotEquals(before, []);
});
