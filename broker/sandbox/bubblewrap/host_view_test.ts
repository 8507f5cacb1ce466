import { assert, assertEquals } from "@std/assert";
import { dirname } from "@std/path/dirname";
import { type HostViewOptions, readHostView, whyPrivate } from "./host_view.ts";

/** A home with these files, each with its text; `-> target` is a link. */
async function inHome<T>(files: Readonly<Record<string, string>>, work: (home: string) => T): Promise<T> {
  // Not below /tmp, of which nothing is shown.
  const home = await Deno.makeTempDir({ dir: "/var/tmp" });
  try {
    for (const [name, text] of Object.entries(files)) {
      const path = `${home}/${name}`;
      await Deno.mkdir(dirname(path), { recursive: true });
      if (text.startsWith("-> ")) await Deno.symlink(text.slice(3), path);
      else await Deno.writeTextFile(path, text, { mode: 0o755 });
    }
    return work(home);
  } finally {
    await Deno.remove(home, { recursive: true });
  }
}

const read = (home: string, path: string[], changes: Partial<HostViewOptions> = {}) => {
  const own = [`${home}/.taskd`];
  const entries = path.map((entry) => entry.startsWith("/") ? entry : `${home}/${entry}`).join(":");
  const view = readHostView({ path: entries, home, programs: ["claude"], read: [], own, ...changes });
  const short = (text: string) => text.replace(home, "~");
  return {
    ...view,
    folders: view.folders.map(short),
    links: view.links.map(([at, target]) => `${short(at)} -> ${short(target)}`),
    path: view.path.map(short),
  };
};

Deno.test("a program of nvm comes with the prefix that has its interpreter and its package", async () => {
  const files = {
    ".nvm/v20/bin/node": "ELF",
    ".nvm/v20/bin/claude": "-> ../lib/node_modules/@anthropic-ai/claude-code/cli.js",
    ".nvm/v20/lib/node_modules/@anthropic-ai/claude-code/cli.js": "#!/usr/bin/env node\n",
  };
  const view = await inHome(files, (home) => read(home, [".nvm/v20/bin", "/usr/bin"]));
  assertEquals(view.programs, ["claude"]);
  assertEquals(view.folders, ["~/.nvm/v20"]);
  // The link lies in what is shown.
  assertEquals(view.links, []);
  assertEquals(view.path, ["~/.nvm/v20/bin", "/usr/bin"]);
});

Deno.test("a program of ~/.local is a link and a file, and nothing beside them is seen", async () => {
  const files = {
    ".local/bin/claude": "-> ../share/claude/versions/2.0.1",
    ".local/bin/secret": "x",
    ".local/lib/x": "x",
    ".local/share/claude/versions/2.0.1": "ELF",
  };
  const view = await inHome(files, (home) => read(home, [".local/bin"]));
  assertEquals(view.folders, ["~/.local/share/claude/versions/2.0.1"]);
  assertEquals(view.links, ["~/.local/bin/claude -> ../share/claude/versions/2.0.1"]);
  assertEquals(view.path, ["~/.local/bin"]);
});

Deno.test("a prefix of npm's gives one package, a project's node_modules all of them", async () => {
  const files = {
    ".npm-global/bin/claude": "-> ../lib/node_modules/claude/cli.js",
    ".npm-global/lib/node_modules/claude/cli.js": "#!/bin/sh\n",
    ".npm-global/lib/node_modules/other/cli.js": "x",
  };
  const view = await inHome(files, (home) => read(home, [".npm-global/bin"]));
  assertEquals(view.folders, ["~/.npm-global/lib/node_modules/claude"]);
  const pnpm = {
    "pnpm/claude": "#!/bin/sh\n",
    "pnpm/node_modules/.pnpm/a@1/node_modules/claude/cli.js": "x",
    "bin/claude": "-> ../pnpm/node_modules/.pnpm/a@1/node_modules/claude/cli.js",
  };
  const other = await inHome(pnpm, (home) => read(home, ["bin"]));
  assertEquals(other.folders, ["~/pnpm/node_modules"]);
});

Deno.test("links of folders on the way are kept, those that lead in a circle are no program", async () => {
  const files = { "tools/1.0/claude": "#!/bin/sh\n", "tools/current": "-> 1.0", "loop/claude": "-> claude" };
  const view = await inHome(files, (home) => read(home, ["loop", "tools/current"]));
  assertEquals(view.links, ["~/tools/current -> 1.0"]);
  assertEquals([view.folders, view.path], [["~/tools/1.0/claude"], ["~/tools/current"]]);
});

Deno.test("a program whose interpreter is missing, or that is not executable, is not found", async () => {
  const files = { "a/claude": "#!/usr/bin/env no-such-interpreter\n" };
  assertEquals((await inHome(files, (home) => read(home, ["a"]))).programs, []);
  assertEquals((await inHome({ "a/other": "" }, (home) => read(home, ["a"]))).programs, []);
  const plain = { "a/claude": "text" };
  const view = await inHome(plain, async (home) => {
    await Deno.chmod(`${home}/a/claude`, 0o644);
    return read(home, ["a"]);
  });
  assertEquals((await view).programs, []);
});

Deno.test("a program never brings a home, a key or taskd's own with it", async () => {
  const files = { ".ssh/claude": "ELF", ".taskd/bin/claude": "ELF", "bin/claude": "ELF", "lib/x": "" };
  for (const folder of [".ssh", ".taskd/bin"]) {
    assertEquals((await inHome(files, (home) => read(home, [folder]))).folders, []);
  }
  // ~/bin beside ~/lib is no prefix: the program alone is shown.
  assertEquals((await inHome(files, (home) => read(home, ["bin"]))).folders, ["~/bin/claude"]);
});

Deno.test("a program of pnpm's is found by the folder that sandbox.read names, with what it starts", async () => {
  const files = {
    ".local/share/pnpm/claude": '#!/bin/sh\nexec node "$basedir/global/5/node_modules/claude/cli.js" "$@"\n',
    ".local/share/pnpm/global/5/node_modules/claude/cli.js": "x",
  };
  const view = await inHome(files, (home) => {
    return read(home, [".local/share/pnpm"], { read: [`${home}/.local/share/pnpm`] });
  });
  assertEquals([view.programs, view.refused], [["claude"], []]);
  assertEquals([view.folders, view.path], [["~/.local/share/pnpm"], ["~/.local/share/pnpm"]]);
});

Deno.test("sandbox.read shows folders, and refuses what has keys, sockets or taskd's own in it", async () => {
  const files = { ".cargo/bin/cargo": "ELF", ".ssh/id": "k", "toolchain": "-> .cargo", ".config/gh/hosts.yml": "t" };
  await inHome(files, (home) => {
    const names = [".cargo", "toolchain", ".ssh", ".config", ".taskd/store", "absent"];
    const view = read(home, [".cargo/bin"], { programs: [], read: [...names.map((name) => `${home}/${name}`), home] });
    assertEquals([view.folders, view.links, view.path], [["~/.cargo"], ["~/toolchain -> .cargo"], ["~/.cargo/bin"]]);
    assertEquals(view.refused.map(({ path }) => path.replace(home, "~")), [
      "~/.ssh",
      "~/.config",
      "~/.taskd/store",
      "~/absent",
      "~",
    ]);
  });
  const of = { home: "/home/a", own: ["/srv/taskd"] };
  for (const path of ["/", "/home", "/home/b", "/root", "/run", "/run/user/1000", "/etc", "/tmp/x", "/proc", "/srv"]) {
    assert(whyPrivate(path, of) !== undefined, path);
  }
  for (const path of ["/srv/tools", "/home/a/.rustup", "/etc/java-17-openjdk"]) {
    assertEquals(whyPrivate(path, of), undefined);
  }
});

Deno.test("a home, a key or taskd's own is refused also where a link leads to it, or to its folder", async () => {
  const files = {
    "real/a/.ssh/id": "k",
    "real/a/keys": "-> .ssh",
    "dots/gnupg/key": "k",
    "real/a/.gnupg": "-> ../../dots/gnupg",
    "disk/taskd/secrets": "k",
    "real/a/.taskd": "-> ../../disk/taskd",
    "real/a/tools/x": "x",
    "homes": "-> real",
  };
  await inHome(files, (at) => {
    const home = `${at}/homes/a`;
    const private_names = [
      "real/a",
      "real",
      "homes/a/keys",
      "real/a/.ssh",
      "real/a/.npmrc",
      "dots",
      "disk",
      "disk/taskd",
    ];
    for (const name of private_names) {
      const view = readHostView({ path: "", home, programs: [], read: [`${at}/${name}`], own: [`${home}/.taskd`] });
      assertEquals([name, view.folders], [name, []]);
    }
    const view = readHostView({ path: "", home, programs: [], read: [`${home}/tools`], own: [`${home}/.taskd`] });
    assertEquals(view.folders, [`${at}/real/a/tools`]);
  });
});

Deno.test("what is private and lies with the system's programs is refused, by itself or by a link", async () => {
  const refused = (home: string, own: string[]) =>
    readHostView({ path: "", home, programs: [], read: [], own }).refused.map(({ path }) => path);
  assertEquals(refused("/opt/taskd", ["/opt/taskd/.taskd", "/srv/stage"]), ["/opt/taskd"]);
  assertEquals(refused("/srv/taskd", ["/opt/stage", "/usr/local/taskd"]), ["/opt/stage", "/usr/local/taskd"]);
  assertEquals(await inHome({ ".ssh": "-> /usr/share" }, (home) => refused(home, [])), ["/usr/share"]);
  assertEquals(await inHome({}, (home) => refused(home, [`${home}/.taskd`])), []);
});
