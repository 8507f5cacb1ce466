/**
 * Where a broker keeps what, and how it logs, by the contract's settings.
 */

import { assert, assertEquals } from "@std/assert";
import { join } from "@std/path/join";
import { EMPTY_VIEW } from "../../../broker/sandbox/bubblewrap/host_view.ts";
import { openRuntime } from "../../../broker/sandbox/open_runtime.ts";
import { loadSettings } from "../../../broker/settings/load.ts";
import { serveBroker } from "../../../broker/serve.ts";
import { randomHex, systemRandom } from "../../../lib/clock.ts";
import { drawNetwork } from "../../support/networks.ts";
import { podman, podmanTest, testImages } from "../../support/podman.ts";
import { BrokerBench } from "../engine/bench.ts";
import { longTest } from "../../support/long.ts";

const exists = (path: string) => Deno.lstat(path).then(() => true, () => false);

/** Names below a directory, with the task's id as `ID`. */
function names(path: string, id: string): string[] {
  return [...Deno.readDirSync(path)].map(({ name }) => name.replace(id, "ID")).sort();
}

// conformance: b2.effect.stage_root b2.effect.audit_root b2.effect.squid_run_dir b2.effect.cache_root
longTest("stage, audit, proxy log and caches are at their variables' paths, else below ~/.taskd", async () => {
  const elsewhere = await Deno.makeTempDir();
  const moved = {
    STAGE_ROOT: join(elsewhere, "s"),
    AUDIT_ROOT: join(elsewhere, "a"),
    SQUID_RUN_DIR: join(elsewhere, "q"),
    TASKD_CACHE_ROOT: join(elsewhere, "c"),
  };
  try {
    for (const env of [{}, moved]) {
      await using bench = await BrokerBench.start({ env });
      const home = join(bench.home, ".taskd");
      const at = (variable: keyof typeof moved, usual: string) => variable in env ? moved[variable] : join(home, usual);
      const { id } = await bench.submit();
      const { gate } = await bench.reaches(id, "awaiting_approval");
      assertEquals(names(at("STAGE_ROOT", "stage"), id), ["ID"]);
      await bench.engine.approve(id, { diff_sha256: gate!.diff_sha256, acknowledge: [] });
      assertEquals((await bench.reaches(id)).outcome, "pushed");
      assertEquals(names(at("STAGE_ROOT", "stage"), id), []);
      const records = names(at("AUDIT_ROOT", "audit"), id).filter((name) => name.startsWith("ID"));
      assertEquals(records, ["ID.brief.json", "ID.diff", "ID.jsonl"]);
      assert(await exists(join(at("SQUID_RUN_DIR", "squid"), "access.log")));
      assertEquals(names(at("TASKD_CACHE_ROOT", "cache"), id), ["entries", "lock", "mirrors", "staging", "trash"]);
      for (const usual of ["stage", "audit", "squid", "cache"]) {
        assertEquals(await exists(join(home, usual)), env !== moved, usual);
      }
    }
  } finally {
    await Deno.remove(elsewhere, { recursive: true });
  }
});

// conformance: b2.effect.cache_quota_gb
Deno.test("a quota of 0 disables the cache, also where a profile enables it", async () => {
  await using bench = await BrokerBench.start({
    env: { TASKD_CACHE_QUOTA_GB: "0" },
    config: "profiles:\n  repos:\n    h.example/o/r: { cache: true }\n",
  });
  assertEquals((await bench.pushed()).outcome, "pushed");
  const kept = Array.from(Deno.readDirSync(join(bench.home, ".taskd", "cache")), ({ name }) => name);
  assertEquals(kept, ["mirrors"]);
});

// conformance: b2.effect.log_json
Deno.test("a person at a terminal reads lines, and JSON with log_json or TASKD_LOG_JSON=1", async () => {
  const isJson = (line: string) => {
    try {
      return typeof JSON.parse(line) === "object";
    } catch {
      return false;
    }
  };
  const table: [config: string, env: Record<string, string>, json: boolean][] = [
    ["", {}, false],
    ["", { TASKD_LOG_JSON: "1" }, true],
    ["", { TASKD_LOG_JSON: "true" }, false],
    ["log_json: true\n", {}, true],
  ];
  for (const [config, variables, json] of table) {
    await using bench = await BrokerBench.prepare({ config });
    const lines: string[] = [];
    const broker = await serveBroker({
      home: bench.home,
      env: (name) => variables[name] ?? bench.env(name),
      write: (line) => lines.push(line),
      terminal: true,
      programs: { gh: [] },
    });
    await broker.stop();
    assert(lines.length > 0);
    assertEquals([...new Set(lines.map(isJson))], [json], `${config}${JSON.stringify(variables)}`);
  }
});

// conformance: b2.effect.network b2.effect.gateway_ip b2.effect.anchor_image b1.gateway_port b1.proxy_port b8.ports
podmanTest(
  "network, gateway address and anchor follow the settings, and the ports are fixed",
  async () => {
    const images = await testImages();
    await using drawn = await drawNetwork();
    const { network, gateway_ip } = drawn;
    const owner = randomHex(systemRandom, 16);
    const home = await Deno.makeTempDir();
    const env: Record<string, string> = {
      TASKD_NETWORK: network,
      TASKD_GW_IP: gateway_ip,
      TASKD_ANCHOR_IMAGE: images.anchor,
    };
    const { settings } = await loadSettings({
      home,
      env: (name) => env[name],
      read: (path) => Promise.resolve(path.endsWith("config.yaml") ? "runtime: podman\n" : "allow: []\n"),
    });
    const runtime = await openRuntime({
      settings,
      owner,
      env: (name) => Deno.env.get(name),
      deno_path: Deno.execPath(),
      deno_cache_dir: home,
      view: EMPTY_VIEW,
      run_dir: home,
    });
    try {
      const { listen } = await runtime.prepare();
      assertEquals(listen, { hostname: gateway_ip, gateway_port: 8088, proxy_port: 3128 });
      const { stdout } = await podman("ps", "--filter", `network=${network}`, "--format", "{{.Names}} {{.Image}}");
      assertEquals(stdout.trim(), `taskd-anchor-${owner.slice(0, 12)} ${images.anchor}`);
      assert(Deno.networkInterfaces().some(({ address }) => address === gateway_ip));
    } finally {
      await runtime.close();
      await Deno.remove(home, { recursive: true });
    }
  },
);
