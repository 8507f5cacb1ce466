import { assertEquals } from "@std/assert";
import { lchownSync } from "node:fs";
import { exchangeablePrograms, PROGRAM_PATHS, programPlaces } from "./host_programs.ts";

/** Beyond all that a machine gives its users. */
const STRANGER = 2 ** 30;

/** What a case lays below a folder that only this user writes. */
class Ground {
  readonly own = Deno.uid();
  uid = this.own;

  constructor(readonly root: string) {}

  folder(path: string, mode = 0o755): void {
    Deno.mkdirSync(`${this.root}/${path}`);
    Deno.chmodSync(`${this.root}/${path}`, mode);
  }

  program(path: string, mode = 0o755): void {
    Deno.writeTextFileSync(`${this.root}/${path}`, "");
    Deno.chmodSync(`${this.root}/${path}`, mode);
  }

  link(path: string, target: string): void {
    Deno.symlinkSync(target.replace("<root>", this.root), `${this.root}/${path}`);
  }

  /** Gives what is there to someone who is neither root nor the operator; only root can, others change the operator. */
  give(path: string): void {
    if (this.own === 0) lchownSync(`${this.root}/${path}`, STRANGER, STRANGER);
    else this.uid = STRANGER;
  }

  /** Lets a group write that is not root's: of root's folders one without members, of others their own. */
  share(path: string): void {
    if (this.own === 0) lchownSync(`${this.root}/${path}`, 0, STRANGER);
    Deno.chmodSync(`${this.root}/${path}`, 0o775);
  }

  [Symbol.dispose](): void {
    Deno.removeSync(this.root, { recursive: true });
  }
}

/** No fixed places. */
const NOWHERE = Object.fromEntries(
  Object.keys(PROGRAM_PATHS).map((name) => [name, []]),
) as unknown as typeof PROGRAM_PATHS;

/** The folder `bin` with git, then what a case changes. */
const within = (change: (at: Ground) => void, mode?: number) => (at: Ground) => {
  at.folder("bin", mode);
  at.program("bin/git");
  change(at);
};
/** A link to git elsewhere. */
const linked = (target: string, lay: (at: Ground) => void) => (at: Ground) => {
  at.folder("bin");
  at.link("bin/git", target);
  lay(at);
};
const repository = (at: Ground, mark: "folder" | "program") => {
  at.folder("repo");
  at[mark]("repo/.git");
  at.folder("repo/bin");
  at.program("repo/bin/git");
};
const nothing = () => {};

const TRUSTED: [what: string, lay: (at: Ground) => void, folder?: string][] = [
  ["a folder of the operator's own", within(nothing)],
  ["a folder named with slashes at its end", within(nothing), "<root>/bin//"],
  ["a folder named through another", within((at) => at.folder("other")), "<root>/other/../bin"],
  ["a program that only its owner may run", within((at) => Deno.chmodSync(`${at.root}/bin/git`, 0o700))],
  ["a link to a program", linked("<root>/other/git-2", (at) => (at.folder("other"), at.program("other/git-2")))],
  ["a link within its folder", linked("git-2", (at) => at.program("bin/git-2"))],
  ["a link out of its folder", linked("../other/git", (at) => (at.folder("other"), at.program("other/git")))],
  ["a link to the folder", (at) => (within(nothing)(at), at.link("named", "bin")), "<root>/named"],
  ["an own folder in one that all share", (at) => {
    at.folder("shared", 0o1777);
    at.folder("shared/bin");
    at.program("shared/bin/git");
  }, "<root>/shared/bin"],
];

const UNTRUSTED: typeof TRUSTED = [
  ["no entry", within(nothing), ""],
  ["an empty entry", within(nothing), ":"],
  ["the working directory", within(nothing), "."],
  ["a folder below the working directory", within(nothing), "bin"],
  ["a folder that is not there", nothing],
  ["a folder without it", (at) => at.folder("bin")],
  ["a folder of that name", (at) => (at.folder("bin"), at.folder("bin/git"))],
  ["a file that cannot be run", within((at) => Deno.chmodSync(`${at.root}/bin/git`, 0o644))],
  ["a program that the group writes", within((at) => Deno.chmodSync(`${at.root}/bin/git`, 0o775))],
  ["a program that all write", within((at) => Deno.chmodSync(`${at.root}/bin/git`, 0o757))],
  ["a program that all write, with the sticky bit", within((at) => Deno.chmodSync(`${at.root}/bin/git`, 0o1757))],
  ["a program of another", within((at) => at.give("bin/git"))],
  ["a folder that the group writes", within(nothing, 0o775)],
  ["a folder that all write", within(nothing, 0o757)],
  ["a folder that all share", within(nothing, 0o1777)],
  ["a folder of another", within((at) => at.give("bin"))],
  ["a folder in one that all write", (at) => {
    at.folder("open", 0o777);
    at.folder("open/bin");
    at.program("open/bin/git");
  }, "<root>/open/bin"],
  ["a way back through one that all write", within((at) => at.folder("open", 0o777)), "<root>/open/../bin"],
  ["a way back into one that all share", within((at) => at.folder("bin/x"), 0o1777), "<root>/bin/x/.."],
  ["a link of another", within((at) => (at.link("named", "bin"), at.give("named"))), "<root>/named"],
  ["a link in a folder that all share", (at) => {
    within(nothing)(at);
    at.folder("shared", 0o1777);
    at.link("shared/named", "../bin");
  }, "<root>/shared/named"],
  [
    "a link into a folder that all write",
    linked("../open/git", (at) => {
      at.folder("open", 0o777);
      at.program("open/git");
    }),
  ],
  ["a link to nothing", linked("gone", nothing)],
  ["a link to itself", linked("git", nothing)],
  ["a folder of a repository", (at) => repository(at, "folder"), "<root>/repo/bin"],
  ["a folder of a work tree with its git directory elsewhere", (at) => repository(at, "program"), "<root>/repo/bin"],
  ["a link into a repository", linked("../repo/bin/git", (at) => repository(at, "folder"))],
  ["a folder of packages", (at) => {
    at.folder("node_modules");
    at.folder("node_modules/.bin");
    at.program("node_modules/.bin/git");
  }, "<root>/node_modules/.bin"],
];

for (const [trusted, cases] of [[true, TRUSTED], [false, UNTRUSTED]] as const) {
  Deno.test(`a program in PATH that ${trusted ? "counts" : "does not count"}: where it is`, () => {
    for (const [what, lay, folder = "<root>/bin"] of cases) {
      using at = new Ground(Deno.realPathSync(Deno.makeTempDirSync()));
      lay(at);
      const path = folder.replace("<root>", at.root);
      const found = trusted ? [`${path.replace(/\/+$/, "")}/git`] : [];
      assertEquals(programPlaces(path, at.uid, NOWHERE).git, found, what);
    }
  });
}

Deno.test("git, gh and notify-send alone are taken from PATH, in its order, after the fixed places", () => {
  using at = new Ground(Deno.realPathSync(Deno.makeTempDirSync()));
  for (const folder of ["two", "one"]) {
    at.folder(folder);
    for (const name of Object.keys(PROGRAM_PATHS)) at.program(`${folder}/${name}`);
  }
  const usual = { ...NOWHERE, git: [`${at.root}/usual/git`], podman: [`${at.root}/usual/podman`] };
  const places = programPlaces(`${at.root}/one:/nowhere:${at.root}/two:${at.root}/one`, at.uid, usual);
  for (const [name, fixed] of Object.entries(usual)) {
    const more = ["git", "gh", "notify-send"].includes(name)
      ? ["one", "two"].map((at_) => `${at.root}/${at_}/${name}`)
      : [];
    assertEquals(places[name as keyof typeof places], [...fixed, ...more], name);
  }
});

/** What may lie at a fixed place, `<root>/bin/git`. */
const FIXED: [what: string, lay: (at: Ground) => void][] = [
  ["nothing, in an own folder", (at) => at.folder("bin")],
  ["no folder", nothing],
  ["a program", within(nothing)],
  ["a link to a program", linked("../other/git-2", (at) => (at.folder("other"), at.program("other/git-2")))],
  ["a program of a repository of the operator's own", (at) => (within(nothing)(at), at.folder(".git"))],
];
const EXCHANGEABLE: typeof FIXED = [
  ["a program of another", within((at) => at.give("bin/git"))],
  ["a program in a folder of another", within((at) => at.give("bin"))],
  ["a link of another", linked("other", (at) => (at.program("bin/other"), at.give("bin/git")))],
  ["a program that all write", within((at) => Deno.chmodSync(`${at.root}/bin/git`, 0o757))],
  ["a program in a folder that all write", within(nothing, 0o757)],
  ["a program in a folder that all share", within(nothing, 0o1777)],
  ["a program in a folder that a group writes", within((at) => at.share("bin"))],
];
const EMPTY: typeof FIXED = [
  ["nothing, in a folder that all write", (at) => at.folder("bin", 0o777)],
  ["nothing, in a folder that all share", (at) => at.folder("bin", 0o1777)],
];

Deno.test("a program at a fixed place that another user could put there or exchange does not count", () => {
  for (
    const [kept, named, cases] of [[true, false, FIXED], [false, true, EXCHANGEABLE], [false, false, EMPTY]] as const
  ) {
    for (const [what, lay] of cases) {
      using at = new Ground(Deno.realPathSync(Deno.makeTempDirSync()));
      lay(at);
      const git = `${at.root}/bin/git`;
      const fixed = { ...NOWHERE, git: [git] };
      assertEquals(programPlaces(undefined, at.uid, fixed), { ...NOWHERE, git: kept ? [git] : [] }, what);
      assertEquals(exchangeablePrograms(at.uid, fixed), named ? [git] : [], what);
    }
  }
});

Deno.test("the fixed places in the system's own folders count", () => {
  for (const [name, paths] of Object.entries(programPlaces(undefined, Deno.uid()))) {
    const own = PROGRAM_PATHS[name as keyof typeof PROGRAM_PATHS].filter((path) => /^(?:\/usr)?\/bin\//.test(path));
    assertEquals(own.filter((path) => !paths.includes(path)), [], name);
  }
});
