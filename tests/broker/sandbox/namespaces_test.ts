import { assertEquals } from "@std/assert";
import { podmanTest } from "../../support/podman.ts";

const MAIN = new URL("./_namespaces_main.ts", import.meta.url).pathname;

for (const propagation of ["private", "shared"]) {
  podmanTest(`sandboxes leave no network namespace and no address where / is ${propagation}`, async () => {
    const program = `mount --make-r${propagation} / && exec "$@"`;
    const { code, stdout, stderr } = await new Deno.Command("unshare", {
      args: ["--mount", "bash", "-c", program, "bash", Deno.execPath(), "run", "-A", "--no-prompt", MAIN],
      stdin: "null",
    }).output();
    assertEquals(code, 0, new TextDecoder().decode(stderr));
    assertEquals(JSON.parse(new TextDecoder().decode(stdout)), { began: 2, left: [], address: 0 });
  });
}
