import { assertEquals } from "@std/assert";
import { FILE_PROMISES } from "../../../cli/redteam/file_modes.ts";
import { NETWORK_PROMISES } from "../../../cli/redteam/own_addresses.ts";
import { tryThem } from "./_context.ts";
import { allReported, unheld } from "./verdicts.ts";

Deno.test("addresses and files of this machine hold every promise", async () => {
  const unmet = unheld(await tryThem(["egress", "files"]));
  assertEquals(unmet, [["files.installed", "skipped", [], "nothing is set up here: there is no ~/.taskd"]]);
});

Deno.test("every promise about them is a hole with parts that allow everything", async () => {
  const home = await Deno.makeTempDir();
  try {
    await Deno.mkdir(`${home}/audit`);
    await Deno.chmod(`${home}/audit`, 0o755);
    await Deno.writeTextFile(`${home}/api-keys.env`, "x");
    const installed = { directory: home, audit_root: `${home}/audit`, squid_run_dir: `${home}/squid` };
    const surfaces = {
      dialer: () => ({ addresses: () => Promise.resolve(["127.0.0.1"]) }),
      readKeys: () => Promise.resolve(new Map([["VENDORA_API_KEY", "x"]])),
    };
    const tried = await tryThem(["egress", "files"], { surfaces, installed });
    assertEquals(tried.length, NETWORK_PROMISES.length + FILE_PROMISES.length);
    allReported(tried);
  } finally {
    await Deno.remove(home, { recursive: true });
  }
});
