import { assert, assertEquals } from "@std/assert";
import { join } from "@std/path/join";
import { PROGRAM_PATHS, programPlaces } from "../../../broker/sandbox/host_programs.ts";
import { longTest } from "../../support/long.ts";
import { writeProgram } from "../../support/programs.ts";
import { BrokerBench, until } from "../engine/bench.ts";
import { CodeHost } from "./_code_host.ts";

const NAMES = ["git", "gh", "notify-send"] as const;

longTest("git, gh and notify-send of PATH alone bring a change to its pull request", async () => {
  const root = await Deno.makeTempDir();
  // A path that would mean more to a shell.
  const [own, brought] = [join(root, "it's $(mine)"), join(root, "repo", "bin")];
  await Deno.mkdir(own, { mode: 0o755 });
  await Deno.mkdir(brought, { recursive: true });
  await Deno.mkdir(join(root, "repo", ".git"));
  for (const name of NAMES) await writeProgram(join(brought, name), `#!/bin/sh\ntouch ${root}/ran\nexit 1\n`);
  await writeProgram(join(own, "git"), `#!/bin/sh\necho "$*" >> ${root}/git.calls\nexec /usr/bin/git "$@"\n`);
  await writeProgram(join(own, "notify-send"), `#!/bin/sh\necho "$*" >> ${root}/notify.calls\n`);
  const places = programPlaces(`${brought}:${own}`, Deno.uid());
  // As on a machine that has nothing at the fixed places.
  const found = NAMES.map((name) => [name, places[name].filter((path) => !PROGRAM_PATHS[name].includes(path))]);
  const env: Record<string, string> = { DISPLAY: ":0" };
  const programs = { ...places, ...Object.fromEntries(found) };
  await using bench = await BrokerBench.prepare({ env, programs });
  await using host = await CodeHost.start(bench.git.root);
  await Deno.symlink(host.gh_path, join(own, "gh"));
  programs.gh = programPlaces(`${brought}:${own}`, Deno.uid()).gh.filter((path) => path.startsWith(root));
  Object.assign(env, host.env);
  await bench.serve();
  const done = await bench.pushed({ repo: host.repo });
  assertEquals([done.outcome, done.pushed?.pull_request], ["pushed", `${host.repo}/pull/1`], done.reason);
  // The git that gh itself looks for is the same.
  assertEquals((await host.calls("pr", "create")).map(({ env }) => env.PATH), [`${own}:/usr/bin:/bin`]);
  assert((await Deno.readTextFile(join(root, "git.calls"))).includes(`:refs/heads/agent/${done.id}`));
  const said = () => Deno.readTextFile(join(root, "notify.calls")).catch(() => "");
  await until(async () => (await said()).includes(done.id.slice(0, 8)));
  assertEquals([...Deno.readDirSync(root)].some(({ name }) => name === "ran"), false);
  await Deno.remove(root, { recursive: true });
});
