import { assert, assertEquals, assertThrows } from "@std/assert";
import fc from "../../tests/packages/fast_check.ts";
import { TaskdError } from "../../lib/errors.ts";
import { compileGlob } from "./glob.ts";

/** The rules of globs, spelled out: slow and plain. */
function reference(glob: string, path: string): boolean {
  return match(glob, 0, path, 0);
}

function match(glob: string, g: number, path: string, p: number): boolean {
  if (g === glob.length) return p === path.length;
  const opens = g === 0 || glob[g - 1] === "/";
  if (glob.startsWith("**/", g) && opens) {
    // Any number of whole segments.
    if (match(glob, g + 3, path, p)) return true;
    for (let at = p; at < path.length; at++) if (path[at] === "/" && match(glob, g + 3, path, at + 1)) return true;
    return false;
  }
  if (glob.startsWith("**", g)) {
    for (let at = p; at <= path.length; at++) {
      if (match(glob, g + 2, path, at)) return !opens || g + 2 < glob.length || at > p;
    }
    return false;
  }
  if (glob[g] === "*") {
    const alone = opens && (g + 1 === glob.length || glob[g + 1] === "/");
    for (let at = p + (alone ? 1 : 0); at <= path.length; at++) {
      if (path.slice(p, at).includes("/")) return false;
      if (match(glob, g + 1, path, at)) return true;
    }
    return false;
  }
  if (p === path.length) return false;
  if (glob[g] === "?") return path[p] !== "/" && match(glob, g + 1, path, p + 1);
  return glob[g] === path[p] && match(glob, g + 1, path, p + 1);
}

const globSegment = fc.oneof(
  { weight: 2, arbitrary: fc.constant("**") },
  {
    weight: 5,
    arbitrary: fc.array(fc.constantFrom("a", "b", ".", "*", "?", "(", "|", "+", "@", "!", "-", "$", "ü"), {
      minLength: 1,
      maxLength: 4,
    }).map((parts) => parts.join("")),
  },
  { weight: 1, arbitrary: fc.constantFrom("a**", "**b", "a**b", ".**") },
).filter((segment) => segment !== "." && segment !== ".." && !/\*{3,}/.test(segment));
const pathSegment = fc.array(fc.constantFrom("a", "b", ".", "\n", "(", ")", "|", "+", "@", "!", "-", "$", "ü", "\\"), {
  minLength: 1,
  maxLength: 4,
}).map((parts) => parts.join("")).filter((segment) => segment !== "." && segment !== "..");
const globs = fc.array(globSegment, { minLength: 1, maxLength: 4 }).map((segments) => segments.join("/"))
  .filter((glob) => !glob.startsWith("!"));
const paths = fc.array(pathSegment, { minLength: 1, maxLength: 4 }).map((segments) => segments.join("/"));

Deno.test("globs match by their rules, on any names", () => {
  fc.assert(
    fc.property(globs, fc.array(paths, { minLength: 1, maxLength: 8 }), (glob, paths) => {
      const matches = compileGlob(glob);
      for (const path of paths) {
        assertEquals(matches(path), reference(glob, path), `${glob} on ${JSON.stringify(path)}`);
      }
    }),
    { numRuns: 3_000, seed: 20_261 },
  );
});

Deno.test("globs that are made from a path match it", () => {
  const blurred = fc.array(fc.tuple(pathSegment, fc.constantFrom("same", "*", "?", "**")), {
    minLength: 1,
    maxLength: 5,
  });
  fc.assert(
    fc.property(blurred, (segments) => {
      const path = segments.map(([name]) => name).join("/");
      const glob = segments.map(([name, how]) =>
        how === "same"
          ? name.replace(/[\\]/g, "?").replace(/^!/, "?")
          : how === "?"
          ? name.replace(/[^/]/gsu, "?")
          : how
      ).join("/");
      assert(compileGlob(glob)(path), `${glob} on ${JSON.stringify(path)}`);
    }),
    { numRuns: 2_000, seed: 7 },
  );
});

// conformance: b2.diff_policy.globs
Deno.test("the usual patterns mean what people mean by them", () => {
  const table: [string, string[], string[]][] = [
    ["dir/**", ["dir/a", "dir/a/b", "dir/.hidden/x", "dir/a\nb", "dir/\n/x"], ["dir", "dirx/a", "x/dir/a"]],
    ["*.js", ["a.js", ".js", "a\n.js"], ["d/a.js", "a.jsx", "a.js/x"]],
    ["**/*.pem", ["x.pem", "a/b/x.pem", "a/.pem"], ["x.pem.txt"]],
    ["src/**.ts", ["src/a.ts", "src/a/b.ts"], ["src.ts"]],
    ["**", ["a", "a/b", ".a/.b"], []],
    [".github/**", [".github/workflows/ci.yml"], ["github/x", "a/.github/x"]],
    ["app/(group)/[id].tsx", ["app/(group)/i.tsx"], ["app/group/i.tsx"]],
    ["{a,b}/**", ["a/x", "b/x/y"], ["c/x", "{a,b}/x"]],
    ["c++/+page.ts", ["c++/+page.ts"], ["c/page.ts"]],
    ["a!(b)", ["a!(b)"], ["ac", "a"]],
    ["[!a]x", ["bx"], ["ax"]],
  ];
  for (const [glob, hits, misses] of table) {
    const matches = compileGlob(glob);
    for (const path of hits) assert(matches(path), `${glob} should match ${JSON.stringify(path)}`);
    for (const path of misses) assert(!matches(path), `${glob} should not match ${JSON.stringify(path)}`);
  }
});

// conformance: b2.diff_policy.globs b7.trailing_slash
Deno.test("what can match nothing is refused", () => {
  const slashes = ["{src/,docs/}", "src/{a,b/}", "dir{/,}", "{x{a,b}/,c}", "{a,{b,c/}}", "dir/{,x}", "{a/,b}{,c}"];
  for (const glob of ["", "dir/", "/dir/**", "[a", "{a", "a**b**c**d**e**f", ...slashes]) {
    assertThrows(() => compileGlob(glob), TaskdError, "Cannot read the glob", glob);
  }
  // A slash before what follows the choice, or in a name, is no last one.
  for (
    const [glob, path] of [
      ["{src/,}*.ts", "src/a.ts"],
      ["dir{/**,}", "dir/a"],
      ["{a/b,c}", "a/b"],
      ["a/\\{b/,c\\}", "a/{b/,c}"],
      ["{a/,b}{c,d}", "a/c"],
      ["a/,b", "a/,b"],
    ] as const
  ) assert(compileGlob(glob)(path), glob);
});
