/**
 * Files by names of any bytes, as an agent can make them: each a file, a link, a pipe, or a file with a hole that makes
 * it too large.
 */

import { hasGitName } from "../../../lib/text/git_name.ts";
import type { SeededRandom } from "../../support/writers/random.ts";

/** What {@linkcode oddTree} calls too large. */
export const TOO_LARGE_BYTES = 1 << 20;

/** Parts of names, one character per byte. */
const PARTS = [
  ..."aBb.-~:*?[{!#$%&;|<>`'\"\\ \t\n\r\x01\x1b\x7f\x80\xff\xfe\xc3",
  ...[
    "--",
    "-rf",
    "...",
    "$(id)",
    "\x1b[2J",
    "%41",
    "a/../",
    ".git",
    ".GIT",
    "git~1",
    ".g",
    "it",
    "e\u0301",
    "\xed\xa0\x80",
  ],
  ..."\u00e9\u200c\u202e\ufeff\ufffd\u0430\u2028\u3164\uff0e\u00df".split("").map((char) =>
    String.fromCharCode(...new TextEncoder().encode(char))
  ),
];

export interface OddFile {
  /** One character per byte. */
  raw: string;
  kind: "file" | "link" | "pipe" | "large";
  /** The path holds a name that some system reads as .git. */
  git: boolean;
  content: string;
}

/** A tree by a seed. */
export function oddTree(random: SeededRandom, count: number): OddFile[] {
  const files = new Map<string, OddFile>();
  const folders = new Set<string>();
  const name = (): string => {
    let text = "";
    for (let parts = random.between(1, 4); parts > 0; parts--) text += toBytes(random.pick(PARTS));
    if (random.chance(0.1)) text = text.padEnd(255, "x");
    text = text.replaceAll("/", "").slice(0, 255);
    return text === "" || text === "." || text === ".." ? name() : text;
  };
  while (files.size < count) {
    const folder = random.chance(0.3) ? random.pick([...folders, name()]) : undefined;
    const raw = folder === undefined ? name() : `${folder}/${name()}`;
    if (files.has(raw) || folders.has(raw) || folder !== undefined && files.has(folder)) continue;
    if (folder !== undefined) folders.add(folder);
    const kind = random.pick(["file", "file", "file", "link", "pipe", "large"] as const);
    const text = new TextDecoder().decode(Uint8Array.from(raw.replaceAll("\xef\xbf\xbd", "?"), (b) => b.charCodeAt(0)));
    // To git, which is careful for HFS+, a name ends at a byte that is no UTF-8.
    const git = hasGitName(text) || hasGitName(text.replace(/\ufffd[^/]*|~/g, ""));
    files.set(raw, { raw, kind, git, content: `content ${files.size}\n` });
  }
  return [...files.values()];
}

function toBytes(part: string): string {
  return [...part].some((char) => char > "\xff") ? String.fromCharCode(...new TextEncoder().encode(part)) : part;
}

/** Makes the files below `root`. */
export async function makeOddTree(root: string, files: readonly OddFile[]): Promise<void> {
  const octal = (raw: string) =>
    [...raw].map((byte) => `\\${byte.charCodeAt(0).toString(8).padStart(3, "0")}`).join("");
  const lines = files.map(({ raw, kind, content }) => {
    const above = raw.includes("/") ? `mkdir -p -- "./\${n%/*}"; ` : "";
    const make = {
      file: `printf '${octal(content)}' >"./$n"`,
      link: `ln -s -- target "./$n"`,
      pipe: `mkfifo -- "./$n"`,
      large: `truncate -s ${TOO_LARGE_BYTES + 1} -- "./$n"`,
    }[kind];
    return `n=$(printf '${octal(raw)}x'); n=\${n%x}; ${above}${make}\n`;
  });
  const child = new Deno.Command("/bin/bash", {
    args: ["-eu", "-s"],
    cwd: root,
    env: { LC_ALL: "C" },
    stdin: "piped",
    stderr: "piped",
  }).spawn();
  const writer = child.stdin.getWriter();
  await writer.write(new TextEncoder().encode(lines.join("")));
  await writer.close();
  const { success, stderr } = await child.output();
  if (!success) throw new Error(new TextDecoder().decode(stderr));
}
