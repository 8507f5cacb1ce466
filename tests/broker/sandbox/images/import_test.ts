import { assertEquals, assertMatch, assertRejects, assertStringIncludes } from "@std/assert";
import { importImage } from "../../../../broker/sandbox/images/build.ts";
import { randomHex, systemRandom } from "../../../../lib/clock.ts";
import { TaskdError } from "../../../../lib/errors.ts";
import { PODMAN, podman, podmanTest } from "../../../support/podman.ts";
import { writeProgram } from "../../../support/programs.ts";

/** Its files are shorter than they say, which tar takes for a failure. */
const UNREADABLE = "/sys/kernel/mm";

podmanTest("a root file system that tar cannot read whole becomes no image, and the error is tar's", async () => {
  const base = await Deno.makeTempDir();
  const name = `localhost/taskd-test-import-${randomHex(systemRandom, 8)}:latest`;
  const env = (variable: string) => Deno.env.get(variable);
  const from = async (root: string, path = PODMAN) => {
    const folder = await Deno.makeTempDir({ dir: base });
    await importImage({ runtime: { name: "podman", path }, env }, { name, root, folder });
  };
  const idOf = async () => (await podman("image", "inspect", "--format={{.Id}}", name)).stdout.trim();
  try {
    const failed = await assertRejects(() => from(UNREADABLE), TaskdError);
    assertEquals(failed.code, "sandbox_failed");
    assertMatch(failed.message, /^Cannot import the image \S+: it ended with code [12]: .*tar: [^;]+$/);
    assertEquals(await idOf(), "");

    await Deno.mkdir(`${base}/root`);
    await Deno.writeTextFile(`${base}/root/file`, name);
    await from(`${base}/root`);
    const id = await idOf();
    assertEquals(id.length, 64);
    const absent = await assertRejects(() => from(`${base}/absent`), TaskdError);
    assertStringIncludes(absent.message, "No such file or directory");
    // The other way round: tar cannot write what is no longer read.
    const broken = `${base}/program`;
    await writeProgram(broken, "#!/bin/sh\necho no room for it >&2; exit 7\n");
    const untaken = await assertRejects(() => from("/usr/bin", broken), TaskdError);
    assertMatch(untaken.message, /it ended with code 7: .*no room for it/);
    assertEquals(await idOf(), id);
  } finally {
    await podman("rmi", "--force", name);
    await Deno.remove(base, { recursive: true });
  }
});
