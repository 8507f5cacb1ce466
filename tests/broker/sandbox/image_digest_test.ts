import { assertEquals, assertMatch } from "@std/assert";
import { podman, podmanTest, testRuntime } from "../../support/podman.ts";

podmanTest("an image's digest is what its name stands for, and a name of nothing has none", async () => {
  await using at = await testRuntime();
  const digest = await at.runtime.imageDigest(at.image);
  assertMatch(digest!, /^sha256:[0-9a-f]{64}$/);
  const other = `localhost/taskd-test-renamed:${at.owner}`;
  await podman("tag", at.image, other);
  try {
    assertEquals(await at.runtime.imageDigest(other), digest);
  } finally {
    await podman("untag", at.image, other);
  }
  assertEquals(await at.runtime.imageDigest(other), undefined);
});
