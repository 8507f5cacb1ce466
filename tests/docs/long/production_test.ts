/**
 * The page about a production database, run as it is printed on a machine of its own: overlays on the folders that it
 * changes, and a stand-in for systemd.
 */

import { join } from "@std/path/join";
import { launchFlags } from "../../../cli/table/launch_flags.ts";
import { longTest } from "../../support/long.ts";
import { writeProgram } from "../../support/programs.ts";
import { stepsOf } from "../page.ts";
import { type Machine, makeMachine, runPage } from "../run_page.ts";

const ROOT = new URL("../../../", import.meta.url).pathname;
const CHANGED = ["/etc", "/var/lib", "/var/cache", "/var/backups", "/usr/local", "/srv"];

/** Where the program and Deno are on the machine: no unit hides it. */
const INSTALLED = "/usr/local/lib/taskd";

/** Why the page cannot be run here, if it cannot. */
function unable(): string | undefined {
  if (Deno.uid() !== 0) return "it takes root";
  const { success } = new Deno.Command("sh", {
    args: ["-c", "command -v systemd-analyze runuser useradd sqlite3 && unshare --mount true"],
    stdout: "null",
    stderr: "null",
  }).outputSync();
  return success ? undefined : "systemd-analyze, runuser, useradd, sqlite3 or unshare is missing";
}

/** The application that the page begins with. */
const APP = `#!/bin/sh
while :; do
  sqlite3 -cmd ".timeout 5000" "$DATABASE" "INSERT INTO orders (item) VALUES ('tea')"
  sleep 0.2
done
`;
const APP_UNIT = `[Unit]
Description=the application

[Service]
Environment=DATABASE=/srv/app/app.db
ExecStart=/usr/local/bin/app
`;

/** Programs of the machine, and a script that mounts the overlays and then is the page's shell. */
async function prepare(machine: Machine): Promise<string> {
  const { base, bin } = machine;
  const state = join(base, "units");
  const deno_dir = Deno.env.get("DENO_DIR") ?? join(Deno.env.get("HOME") ?? "/root", ".cache/deno");
  await Deno.mkdir(state);
  const words = [`${INSTALLED}/deno`, "run", "--config", `${INSTALLED}/taskd/deno.json`, ...launchFlags()];
  await writeProgram(join(base, "taskd"), `#!/bin/sh\nexec ${words.join(" ")} ${INSTALLED}/taskd/cli/main.ts "$@"\n`);
  await writeProgram(join(base, "app"), APP);
  await Deno.writeTextFile(join(base, "app.service"), APP_UNIT);
  await Deno.remove(join(bin, "taskd"));
  await writeProgram(
    join(base, "sudo"),
    '#!/bin/sh\nif [ "$1" = -u ]; then u=$2; shift 2; exec runuser -u "$u" -- "$@"; fi\nexec "$@"\n',
  );
  const systemctl = new URL("systemctl.ts", import.meta.url).pathname;
  await writeProgram(
    join(base, "systemctl"),
    `#!/bin/sh\nDENO_DIR=${deno_dir} exec ${Deno.execPath()} run -A --no-lock ${systemctl} ${state} "$@"\n`,
  );
  const overlays = CHANGED.map((path) => {
    const own = join(base, "overlay", path.replaceAll("/", "_"));
    return `mkdir -p ${path} ${own}/upper ${own}/work
mount -t overlay overlay -o lowerdir=${path},upperdir=${own}/upper,workdir=${own}/work ${path}`;
  });
  const entry = join(base, "machine");
  await writeProgram(
    entry,
    `#!/bin/sh
set -e
# The machine's own programs come first, wherever the tests were started from.
export PATH=/usr/local/bin:$PATH
mkdir -p ${base}/overlay
mount -t tmpfs none ${base}/overlay
${overlays.join("\n")}
mkdir -p ${INSTALLED}/taskd
touch ${INSTALLED}/deno
mount --bind ${ROOT} ${INSTALLED}/taskd
mount --bind ${Deno.execPath()} ${INSTALLED}/deno
cp ${["taskd", "app", "sudo", "systemctl"].map((name) => join(base, name)).join(" ")} /usr/local/bin/
cp ${join(base, "app.service")} /etc/systemd/system/
# What the daemon would fetch from the registry at its first start.
mkdir -p /var/cache/taskd/deno ${base}/overlay/deno/upper ${base}/overlay/deno/work
mount -t overlay overlay -o lowerdir=${deno_dir},upperdir=${base}/overlay/deno/upper,workdir=${base}/overlay/deno/work \\
  /var/cache/taskd/deno
# Not chmod -R: a file whose mode is set is copied, even to the mode that it has.
find /var/cache/taskd ! -perm -o=r -exec chmod a+rX {} +
chmod 0777 /var/cache/taskd/deno
mkdir -p /srv/app
sqlite3 /srv/app/app.db "CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT)" > /dev/null
systemctl start app.service
exec "$@"
`,
  );
  // The script that the page takes from another one.
  const [backup] = stepsOf(await Deno.readTextFile(join(ROOT, "docs/how-to/back_up.md")));
  await new Deno.Command("bash", { args: ["-ec", backup!.command], cwd: machine.home }).output();
  return entry;
}

function freePort(): number {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  return (listener.addr as Deno.NetAddr).port;
}

/** Ends the units that run: each is a process group of its own. */
function stopUnits(state: string): void {
  for (const { name } of Deno.readDirSync(state)) {
    if (!name.endsWith(".pid")) continue;
    const pid = Deno.readTextFileSync(join(state, name)).trim();
    new Deno.Command("kill", { args: ["-TERM", "--", `-${pid}`], stderr: "null" }).outputSync();
  }
}

const reason = unable();
longTest({
  name: `the page about a production database runs as it is printed${reason ? ` (ignored: ${reason})` : ""}`,
  ignore: reason !== undefined,
  async fn() {
    await using machine = await makeMachine();
    const entry = await prepare(machine);
    try {
      await runPage("docs/how-to/production_database.md", machine, {
        wrapper: ["unshare", "--mount", "--propagation", "private", entry],
        replace: { "127.0.0.1:9464": `127.0.0.1:${freePort()}` },
      });
    } finally {
      stopUnits(join(machine.base, "units"));
    }
  },
});
