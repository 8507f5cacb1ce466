/**
 * The one gate: everything that must hold before a change is merged. Runs every
 * step even after a failure, so that one run shows all that is broken; exits 1 if
 * anything was.
 *
 *     deno task ok                 # everything
 *     deno task ok --skip-tests    # all but the test suite
 */

import config from "../../deno.json" with { type: "json" };

/** One step: its name and the arguments that `deno` is called with. */
interface Gate {
  name: string;
  args: string[];
}

const TEST_GATE: Gate = { name: "test", args: ["task", "test"] };

const GATES: readonly Gate[] = [
  { name: "fmt --check", args: ["fmt", "--check"] },
  { name: "lint", args: ["lint"] },
  { name: "check", args: ["check", "--doc"] },
  { name: "check of pages", args: ["check", "--doc-only", "README.md", "docs/**/*.md"] },
  { name: "type names", args: ["run", "--allow-read", "--allow-run=git", "--no-prompt", "tests/tools/type_names.ts"] },
  { name: "doc --lint", args: ["doc", "--lint", ...Object.values(config.exports)] },
  TEST_GATE,
  { name: "publish --dry-run", args: ["task", "publish", "--dry-run"] },
];

/** Runs one gate, prints its line (and its output when it failed) and answers whether it held. */
async function runGate(gate: Gate): Promise<boolean> {
  const started_ms = performance.now();
  const { success, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: gate.args,
    env: { NO_COLOR: "1" },
    stdin: "null",
  }).output();
  const seconds = ((performance.now() - started_ms) / 1000).toFixed(1);
  console.log(`${success ? "ok  " : "FAIL"}  ${gate.name.padEnd(18)} ${seconds.padStart(6)} s`);
  if (!success) {
    await Deno.stdout.write(stdout);
    await Deno.stdout.write(stderr);
  }
  return success;
}

const unknown = Deno.args.filter((word) => word !== "--skip-tests");
if (unknown.length > 0) {
  console.error(`Cannot run the gates: unknown argument ${unknown.join(" ")}`);
  Deno.exit(2);
}
const gates = Deno.args.includes("--skip-tests") ? GATES.filter((gate) => gate !== TEST_GATE) : GATES;
const broken: string[] = [];
for (const gate of gates) {
  if (!await runGate(gate)) broken.push(gate.name);
}
console.log(broken.length === 0 ? `all ${gates.length} gates hold` : `broken: ${broken.join(", ")}`);
Deno.exit(broken.length === 0 ? 0 : 1);
