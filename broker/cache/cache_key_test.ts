import { assertEquals, assertMatch, assertNotEquals } from "@std/assert";
import fc from "../../tests/packages/fast_check.ts";
import { type CacheInputs, cacheKey } from "./cache_key.ts";

const INPUTS: CacheInputs = {
  repo: "git.example.com/owner/repo",
  lockfiles: [{ path: "a/go.sum", digest: "aa" }, { path: "package-lock.json", digest: "bb" }],
  toolchain: "podman",
  arch: "x86_64",
  setup_commands: [["npm", "ci"], ["go", "mod", "download"]],
  image: "sha256:1",
};

Deno.test("a key is 64 hexadecimal digits, the same for the same inputs and any order of lockfiles", () => {
  assertMatch(cacheKey(INPUTS), /^[0-9a-f]{64}$/);
  assertEquals(cacheKey({ ...INPUTS, lockfiles: INPUTS.lockfiles.toReversed() }), cacheKey(INPUTS));
});

Deno.test("every input decides", () => {
  const changes: Partial<CacheInputs>[] = [
    {},
    { repo: "git.example.com/other/repo" },
    { lockfiles: [] },
    { lockfiles: [{ path: "a/go.sum", digest: "ab" }, INPUTS.lockfiles[1]!] },
    { lockfiles: [{ path: "b/go.sum", digest: "aa" }, INPUTS.lockfiles[1]!] },
    { toolchain: "docker" },
    { arch: "aarch64" },
    { setup_commands: [["npm", "ci"]] },
    { setup_commands: [["npm ci"], ["go", "mod", "download"]] },
    { setup_commands: [["go", "mod", "download"], ["npm", "ci"]] },
    { image: "sha256:2" },
  ];
  const keys = changes.map((change) => cacheKey({ ...INPUTS, ...change }));
  assertEquals(new Set(keys).size, changes.length);
});

Deno.test("attack: no spelling of one repository's inputs gives another repository's key", () => {
  const text = fc.string({ unit: "binary", maxLength: 12 });
  const inputs = fc.record({
    repo: text,
    lockfiles: fc.array(fc.record({ path: text, digest: text }), { maxLength: 3 }),
    toolchain: text,
    arch: text,
    setup_commands: fc.array(fc.array(text, { maxLength: 3 }), { maxLength: 3 }),
    image: text,
  });
  fc.assert(fc.property(inputs, inputs, (one, other) => {
    fc.pre(one.repo !== other.repo);
    assertNotEquals(cacheKey(one), cacheKey(other));
  }));
});
