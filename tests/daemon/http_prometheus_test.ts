import { existsSync } from "@std/fs/exists";
import { assert, assertEquals } from "@std/assert";
import { join } from "@std/path/join";
import { Place } from "./daemon_process.ts";
import { HttpDaemon, TOKEN } from "./_http.ts";
import { longTest } from "../support/long.ts";

const PROMETHEUS = "/usr/bin/prometheus";
const PROMTOOL = "/usr/bin/promtool";
const DOCS = new URL("../../docs/monitoring/", import.meta.url).pathname;

const missing = [PROMETHEUS, PROMTOOL].find((path) => !existsSync(path));
const why = missing === undefined ? "" : " (ignored: prometheus is not installed)";

/** Runs promtool, with `input` if given, and returns what it says. */
async function promtool(args: string[], input?: string): Promise<{ code: number; text: string }> {
  const child = new Deno.Command(PROMTOOL, {
    args,
    stdin: input === undefined ? "null" : "piped",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  if (input !== undefined) {
    const writer = child.stdin.getWriter();
    await writer.write(new TextEncoder().encode(input));
    await writer.close();
  }
  const { code, stdout, stderr } = await child.output();
  return { code, text: new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr) };
}

/** A free port of the loopback; Prometheus cannot choose one by itself. */
function freePort(): number {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  return listener.addr.port;
}

// conformance: 4.http.metrics
Deno.test({
  name: `promtool finds nothing wrong with the metrics${why}`,
  ignore: missing !== undefined,
  fn: async () => {
    await using place = new Place();
    await using http = await HttpDaemon.start(place);
    using client = await http.daemon.connect();
    await client.call("create", { db: "app" });
    await client.call("open", { db: "app" });
    await client.call("flush", { db: "app" });
    await client.call("fork", { db: "app", new_branch: "dev" });
    assertEquals(await promtool(["check", "metrics"], (await http.metrics()).text), { code: 0, text: "" });
    const more = await (await http.fetch("/metrics/more")).text();
    assertEquals(await promtool(["check", "metrics"], more), { code: 0, text: "" });
  },
});

// conformance: 1.pull_only
longTest({
  name: `Prometheus scrapes with the bearer token, and every rule of alerts.yml loads${why}`,
  ignore: missing !== undefined,
  fn: async () => {
    await using place = new Place();
    await using http = await HttpDaemon.start(place);
    using client = await http.daemon.connect();
    await client.call("create", { db: "app" });
    await client.call("open", { db: "app" });
    const config = join(place.directory, "prometheus.yml");
    await Deno.writeTextFile(join(place.directory, "token"), TOKEN);
    await Deno.writeTextFile(
      config,
      `global: {scrape_interval: 200ms}
rule_files: [${DOCS}alerts.yml]
scrape_configs:
  - job_name: taskd
    authorization: {credentials_file: token}
    static_configs: [{targets: ["127.0.0.1:${http.port}"]}]
`,
    );
    const listen = `127.0.0.1:${freePort()}`;
    const child = new Deno.Command(PROMETHEUS, {
      args: [
        `--config.file=${config}`,
        `--storage.tsdb.path=${join(place.directory, "tsdb")}`,
        `--web.listen-address=${listen}`,
      ],
      stdin: "null",
      stdout: "null",
      stderr: "null",
    }).spawn();
    try {
      const query = async (expression: string): Promise<string | undefined> => {
        try {
          const response = await fetch(`http://${listen}/api/v1/query?query=${encodeURIComponent(expression)}`);
          const { data } = await response.json();
          return data?.result?.[0]?.value?.[1];
        } catch {
          // It is not up yet.
          return undefined;
        }
      };
      const until = async (expression: string, value: string) => {
        while (await query(expression) !== value) await new Promise((resolve) => setTimeout(resolve, 50));
      };
      await until("up", "1");
      await until("bstore_sessions_open", "1");
      await until('bstore_build_info{version="dev"}', "1");
      await until('bstore_capture_lag_bytes{db="app",branch="main"}', "0");
      await client.call("close", { db: "app" });
      await until("bstore_sessions_open", "0");
      const rules = await (await fetch(`http://${listen}/api/v1/rules`)).json();
      const loaded = rules.data.groups.flatMap((group: { rules: { health: string }[] }) => group.rules);
      assert(loaded.length > 5);
    } finally {
      child.kill("SIGTERM");
      await child.status;
    }
  },
});

Deno.test({
  name: `promtool accepts docs/monitoring/alerts.yml${why}`,
  ignore: missing !== undefined,
  fn: async () => {
    const { code, text } = await promtool(["check", "rules", join(DOCS, "alerts.yml")]);
    assertEquals(code, 0, text);
  },
});
