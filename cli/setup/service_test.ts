import { assertEquals, assertRejects } from "@std/assert";
import { TaskdError } from "../../lib/errors.ts";
import { askProgram, PROGRAM_PATHS } from "../../broker/sandbox/host_programs.ts";
import { installUnit, uninstallUnit } from "./service.ts";
import { MARKER, type ServiceManager } from "./units.ts";

const MANAGERS: readonly { manager: ServiceManager; program: "systemctl" | "launchctl"; calls: string[] }[] = [
  {
    manager: "systemd",
    program: "systemctl",
    calls: [
      "--user daemon-reload",
      "--user enable --now taskd-broker.service",
      "--user disable --now taskd-broker.service",
      "--user daemon-reload",
    ],
  },
  { manager: "launchd", program: "launchctl", calls: ["bootstrap gui/7 UNIT", "bootout gui/7/dev.taskd.broker"] },
];

/** A folder with a manager that writes down how it is called, and ends as `script` says. */
async function withManager(
  { program, script = "" }: { program: "systemctl" | "launchctl"; script?: string },
  work: (place: { folder: string; options: Parameters<typeof uninstallUnit>[1]; calls(): string[] }) => Promise<void>,
): Promise<void> {
  const folder = await Deno.makeTempDir();
  try {
    const path = `${folder}/manager`;
    await Deno.writeTextFile(path, `#!/bin/sh\necho "$*" >> ${folder}/calls\n${script}\n`);
    await Deno.chmod(path, 0o755);
    const options = {
      ask: askProgram({ env: () => undefined }),
      uid: 7,
      programs: { ...PROGRAM_PATHS, [program]: [path] },
    };
    await work({ folder, options, calls: () => Deno.readTextFileSync(`${folder}/calls`).trimEnd().split("\n") });
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

for (const { manager, program, calls } of MANAGERS) {
  Deno.test(`${manager} hears of a file once it is there, and before it goes`, () =>
    withManager({ program }, async ({ folder, options, calls: made }) => {
      const path = `${folder}/deep/er/unit`;
      await installUnit({ manager, path, text: `# ${MARKER}\n` }, { ...options, started: true });
      assertEquals(Deno.readTextFileSync(path), `# ${MARKER}\n`);
      await uninstallUnit({ manager, path }, options);
      assertEquals(made(), calls.map((call) => call.replace("UNIT", path)));
      await assertRejects(() => uninstallUnit({ manager, path }, options), TaskdError, "does not exist");
    }));

  Deno.test(`a refusal of ${manager} is reported with what to run later, and the file stays`, () =>
    withManager({ program, script: "echo 'no bus \x1b[31m here' >&2; exit 1" }, async ({ folder, options }) => {
      const path = `${folder}/unit`;
      const install = () => installUnit({ manager, path, text: `# ${MARKER}\n` }, { ...options, started: true });
      const error = await assertRejects(install, TaskdError, "no bus");
      assertEquals([error.code, error.message.includes("\x1b"), error.hint?.includes(program)], [
        "unavailable",
        false,
        true,
      ]);
      await uninstallUnit({ manager, path }, options);
      assertEquals([...Deno.readDirSync(folder)].map(({ name }) => name).toSorted(), ["calls", "manager"]);
    }));
}

Deno.test("installing again replaces an older unit of this program", () =>
  withManager({ program: "systemctl" }, async ({ folder, options }) => {
    const file = { manager: "systemd" as const, path: `${folder}/unit` };
    for (const text of [`# ${MARKER}\n1\n`, `# ${MARKER}\n2\n`]) {
      await installUnit({ ...file, text }, { ...options, started: false });
      assertEquals(Deno.readTextFileSync(file.path), text);
    }
  }));
