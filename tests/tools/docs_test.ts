import { assertEquals } from "@std/assert";
import { dirname } from "@std/path/dirname";
import { join } from "@std/path/join";

const ROOT = join(import.meta.dirname!, "../..");

/** Markdown files of the project, as project paths. */
function documents(): string[] {
  const docs = [...Deno.readDirSync(join(ROOT, "docs"))].map((entry) => join("docs", entry.name));
  return ["README.md", "broker/README.md", ...docs].filter((path) => path.endsWith(".md"));
}

/** The anchors that the headings of a document make. */
function anchors(markdown: string): Set<string> {
  const headings = [...markdown.matchAll(/^#+ (.+)$/gm)].map((match) => match[1]!);
  return new Set(headings.map((text) => text.toLowerCase().replace(/[^\w -]/g, "").replaceAll(" ", "-")));
}

async function isBroken(from: string, link: string): Promise<boolean> {
  const [path = "", anchor] = link.split("#");
  const target = path === "" ? join(ROOT, from) : join(ROOT, dirname(from), path);
  try {
    if (anchor === undefined) await Deno.stat(target);
    else return !anchors(await Deno.readTextFile(target)).has(anchor);
    return false;
  } catch {
    return true;
  }
}

Deno.test("every link between the documents leads somewhere", async () => {
  const broken: string[] = [];
  for (const document of documents()) {
    const markdown = await Deno.readTextFile(join(ROOT, document));
    const links = [...markdown.matchAll(/\]\(([^)\s]+)\)/g)].map((match) => match[1]!);
    for (const link of links) {
      if (!/^[a-z]+:/.test(link) && await isBroken(document, link)) broken.push(`${document}: ${link}`);
    }
  }
  assertEquals(broken, []);
});

Deno.test("the README leads to every page, and some page to every other file of docs/", async () => {
  const readme = await Deno.readTextFile(join(ROOT, "README.md"));
  const pages = documents().filter((path) => path.startsWith("docs/"));
  assertEquals(pages.filter((path) => !readme.includes(`](${path})`)), []);
  const text = (await Promise.all(pages.map((path) => Deno.readTextFile(join(ROOT, path))))).join("\n");
  const others = [...Deno.readDirSync(join(ROOT, "docs"))].filter(({ isFile, name }) =>
    isFile && !name.endsWith(".md")
  );
  assertEquals(others.filter(({ name }) => !text.includes(`](${name})`)).map(({ name }) => name), []);
});

Deno.test("every file of the project that a document names is there", async () => {
  const missing: string[] = [];
  for (const document of documents()) {
    const markdown = await Deno.readTextFile(join(ROOT, document));
    for (const [, path = ""] of markdown.matchAll(/`((?:broker|cli|daemon|docs|lib|std|tests)\/[\w./-]*)`/g)) {
      await Deno.stat(join(ROOT, path)).catch(() => missing.push(`${document}: ${path}`));
    }
  }
  assertEquals(missing, []);
});
