import { assert, assertEquals } from "@std/assert";
import * as v from "valibot";
import * as fc from "../../tests/packages/fast_check.ts";
import { CONFIG, load } from "../../tests/broker/settings/harness.ts";
import { TaskdError } from "../../lib/errors.ts";
import { parseEgress } from "./egress_file.ts";
import { InvalidConfig } from "./invalid_config.ts";
import { duration, formatExact, MAX_WINDOW } from "./value_schemas.ts";
import { canonicalJson } from "../../lib/text/canonical_json.ts";
import { SETTING_PATHS, SETTINGS } from "./settings.ts";

/** Every feature of a configuration file, in one. */
const FULL = `# comment
vendor_a_auth: subscription
default_agent: codex
default_model: "model-1"
task_budget_usd: 1.5
global_max_tasks: 40
max_concurrent_tasks: 4
approval_timeout: 24h
stage_root: ~/stage
allow_vendor_tools: [web_search, url_source]
broker:
  socket: $TMPDIR/x-$UID/b.sock
  addr: "[::1]:7070"
compat:
  base_url: http://localhost:11434
  api_key_env: MY_KEY
  prices:
    default: { input: 1, output: 2.5 }
diff_policy:
  max_files_changed: 100
  blocked_paths: ["infra/**", '**/*.pem', "{a,b}/[cd].?s"]
profiles:
  repos:
    git.example.com/owner/repo:
      setup: [["npm", "ci"]]
      readiness:
        - [npm, test]
      timeout: 5m
      cache: true
ci: { watch: true, poll_interval: 30s, watch_timeout: 2h, max_attempts: 3 }
`;
const LIST = 'allow:\n  - host: a.example.com\n  - host: "*.b.example"\n    ports: [443, 8443]\n';

/** Cuts, repeats and inserts, at any place. */
function mutated(text: string): fc.Arbitrary<string> {
  const piece = fc.oneof(
    fc.constantFrom(..."[]{}:,#&*!|>'\"%@`-?~\t\n\r \0\ufeff\u2028", "<<", ": ", "- ", "---\n", "...\n", "!!binary "),
    fc.constantFrom("-1", "0", "9e999", ".nan", ".inf", "null", "true", "0x10", "1_0", "__proto__", "constructor"),
    fc.string({ unit: "binary", maxLength: 6 }),
  );
  const edit = fc.record({ at: fc.nat(text.length), cut: fc.nat(12), piece, twice: fc.boolean() });
  return fc.array(edit, { minLength: 1, maxLength: 4 }).map((edits) =>
    edits.reduce((current, { at, cut, piece, twice }) => {
      const kept = twice ? current.slice(0, at + cut) : current.slice(0, at);
      return kept + piece + current.slice(at + (twice ? 0 : cut));
    }, text)
  );
}

Deno.test("the file that the mutations begin with is valid", async () => {
  const { settings } = await load({ config: FULL, egress: LIST });
  assertEquals([settings.default_agent, settings.ci.max_attempts], ["agent_b", 3]);
});

Deno.test("any mutation of a valid file loads or is refused with its place", async () => {
  await fc.assert(
    fc.asyncProperty(mutated(FULL), async (config) => {
      try {
        const { settings } = await load({ config });
        // Every resolution keeps the rules between settings.
        assert(settings.global_max_tasks === 0 || settings.global_max_tasks >= settings.max_concurrent_tasks);
        assert(settings.ci.max_attempts <= 10 && (settings.ci.max_attempts === 0 || settings.approval_timeout > 0));
        assert(settings.ci.poll_interval >= 10_000);
        assert(settings.ci.watch_timeout > Math.max(300_000, 2 * settings.ci.poll_interval));
      } catch (error) {
        if (!(error instanceof InvalidConfig)) throw error;
        assert("file" in error.place || "built_in" in error.place, error.message);
        if (!("file" in error.place)) return;
        const { file, line, column } = error.place;
        assert(file === CONFIG && line >= 1 && line <= config.split("\n").length + 1 && column >= 1, error.message);
      }
    }),
    { numRuns: 1_000 },
  );
});

Deno.test("any mutation of a valid egress list loads as names and ports, or is refused", () => {
  fc.assert(
    fc.property(mutated(LIST), (text) => {
      try {
        for (const { host, ports } of parseEgress("egress.yaml", text).entries) {
          assert(/^(?:\*\.)?[a-z0-9_-]+(?:\.[a-z0-9_-]+)+$/.test(host) && ports.length > 0, host);
        }
      } catch (error) {
        if (!(error instanceof InvalidConfig)) throw error;
      }
    }),
    { numRuns: 1_000 },
  );
});

Deno.test("any text in any variable loads or is refused", async () => {
  const variables = SETTING_PATHS.flatMap((path) => SETTINGS[path].env ?? []);
  const text = fc.oneof(
    fc.string({ unit: "binary", maxLength: 12 }),
    fc.constantFrom("0", "-0", "1", "-1", "1e3", "0x1", "NaN", "Infinity", "1h", "99999999999999999999", "/a/..", "~/"),
  );
  await fc.assert(
    fc.asyncProperty(fc.constantFrom(...variables), text, async (variable, value) => {
      try {
        await load({ env: { [variable]: value } });
      } catch (error) {
        if (!(error instanceof TaskdError)) throw error;
        assertEquals(error.code, "invalid_config");
      }
    }),
    { numRuns: 1_000 },
  );
});

Deno.test("every formatted duration parses to the same number of milliseconds", () => {
  const schema = duration({ maximum: MAX_WINDOW });
  fc.assert(fc.property(fc.nat(3650 * 86_400_000), (ms) => {
    assertEquals(v.parse(schema, formatExact(ms)), ms);
  }));
});

Deno.test("canonical JSON keeps the value and ignores the order of keys", () => {
  fc.assert(fc.property(fc.dictionary(fc.string(), fc.oneof(fc.integer(), fc.string(), fc.boolean())), (object) => {
    assertEquals(JSON.parse(canonicalJson(object)), JSON.parse(JSON.stringify(object)));
    const turned = Object.fromEntries(Object.entries(object).reverse());
    assertEquals(canonicalJson(turned), canonicalJson(object));
  }));
});
