import { assert, assertEquals } from "@std/assert";
import { cacheEnv, DEPS, isLockfileName, isRequirementsName, PACKAGE_MANAGERS } from "./package_managers.ts";

// conformance: b2.cache.deps
Deno.test("every package manager has a lockfile and a cache of its own below /deps", () => {
  const places = new Set<string>();
  for (const { name, lockfiles, setup } of PACKAGE_MANAGERS) {
    assert(lockfiles.every(isLockfileName), name);
    const below = new Set(Object.values(setup).filter((value) => value.startsWith(`${DEPS}/`)));
    assert(below.size > 0, name);
    for (const place of below) {
      assert(!places.has(place), place);
      places.add(place);
    }
  }
});

Deno.test("an agent gets only variables that a read-only cache can bear", () => {
  const agent = cacheEnv("agent");
  assertEquals(agent.npm_config_cache, undefined);
  assertEquals(agent.GOMODCACHE, undefined);
  assertEquals(agent.GOPROXY, "file:///deps/go/cache/download,https://proxy.golang.org,direct");
});

Deno.test("lists of requirements are recognized by their name", () => {
  for (const name of ["requirements.txt", "requirements-dev.txt", "requirements_3.12.txt"]) {
    assert(isRequirementsName(name), name);
  }
  for (const name of ["requirements.in", "my-requirements.txt", "requirements"]) {
    assert(!isRequirementsName(name), name);
  }
});
