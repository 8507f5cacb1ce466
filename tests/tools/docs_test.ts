import { assertEquals } from "@std/assert";
import { dirname } from "@std/path/dirname";
import { join } from "@std/path/join";

const ROOT = join(import.meta.dirname!, "../..");

/** Files below a folder of the project, as project paths. */
function filesBelow(folder: string): string[] {
  return [...Deno.readDirSync(join(ROOT, folder))].flatMap(({ name, isDirectory }) =>
    isDirectory ? filesBelow(join(folder, name)) : [join(folder, name)]
  );
}

/** Pages that are written for readers: the README files of the project and everything in docs/. */
function documents(): string[] {
  const docs = filesBelow("docs").filter((path) => path.endsWith(".md"));
  return [
    "README.md",
    "broker/README.md",
    "tests/README.md",
    "std/README.md",
    "tests/conformance/README.md",
    "tests/cli/redteam/README.md",
    ...docs,
  ];
}

/** The anchors that the headings of a document make. */
function anchors(markdown: string): Set<string> {
  const headings = [...markdown.matchAll(/^#+ (.+)$/gm)].map((match) => match[1]!);
  return new Set(headings.map((text) => text.toLowerCase().replace(/[^\w -]/g, "").replaceAll(" ", "-")));
}

function linksOf(markdown: string): string[] {
  return [...markdown.matchAll(/\]\(([^)\s]+)\)/g)].map((match) => match[1]!);
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
    for (const link of linksOf(await Deno.readTextFile(join(ROOT, document)))) {
      if (!/^[a-z]+:/.test(link) && await isBroken(document, link)) broken.push(`${document}: ${link}`);
    }
  }
  assertEquals(broken, []);
});

Deno.test("the map leads to every page, and some page to every other file of docs/", async () => {
  const all = filesBelow("docs");
  const pages = all.filter((path) => path.endsWith(".md") && path !== "docs/README.md");
  const map = linksOf(await Deno.readTextFile(join(ROOT, "docs/README.md"))).map((link) => join("docs", link));
  assertEquals(pages.filter((path) => !map.includes(path)), []);
  const linked = new Set<string>();
  for (const document of documents()) {
    const links = linksOf(await Deno.readTextFile(join(ROOT, document)));
    for (const link of links) linked.add(join(dirname(document), link));
  }
  assertEquals(all.filter((path) => !path.endsWith(".md") && !linked.has(path)), []);
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
