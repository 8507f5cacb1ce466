/**
 * Runs the commands of a page as they are printed, in order, in one shell, with a home of its own.
 */

import { join } from "@std/path/join";
import { parse as parseYaml } from "@std/yaml/parse";
import { stringify as stringifyYaml } from "@std/yaml/stringify";
import { launchFlags } from "../../cli/table/launch_flags.ts";
import { writeProgram } from "../support/programs.ts";
import { Bindings, firstMissing, type Step, stepsOf } from "./page.ts";

const ROOT = new URL("../../", import.meta.url).pathname;
/** A command that is still running then has failed. */
const COMMAND_TIMEOUT_MS = 90_000;

/** What a page is run with. */
export interface PageOptions {
  /** The heading of the one section that is run. */
  section?: string;
  /** Names of the reader's own servers and repositories, and what stands in their place. */
  replace?: Readonly<Record<string, string>>;
  /** Variables beside those that every page has. */
  env?: Readonly<Record<string, string>>;
  /** What else may vary in the lines that a page shows. */
  varies?: RegExp;
  /** A program in front of the shell, such as `unshare`. */
  wrapper?: readonly string[];
}

/** The machine on which a page is run. */
export interface Machine extends AsyncDisposable {
  /** The directory that holds everything of it. */
  base: string;
  home: string;
  /** A directory at the front of PATH. */
  bin: string;
}

/** A home without anything in it, in `dir`, and `taskd` of this checkout on the PATH. */
export async function makeMachine({ dir }: { dir?: string } = {}): Promise<Machine> {
  const base = await Deno.realPath(
    await Deno.makeTempDir({ prefix: "taskd-docs-", ...(dir === undefined ? {} : { dir }) }),
  );
  const [home, bin] = [join(base, "home"), join(base, "bin")];
  for (const folder of [home, bin, join(base, "tmp")]) await Deno.mkdir(folder, { mode: 0o700 });
  const words = [Deno.execPath(), "run", "--config", `${ROOT}deno.json`, ...launchFlags(), `${ROOT}cli/main.ts`];
  await writeProgram(join(bin, "taskd"), `#!/bin/sh\nexec ${words.map((word) => `'${word}'`).join(" ")} "$@"\n`);
  return {
    base,
    home,
    bin,
    [Symbol.asyncDispose]: () => Deno.remove(base, { recursive: true }),
  };
}

/** Runs every command of a page, and throws with the page's line where one fails or prints something else. */
export async function runPage(path: string, machine: Machine, options: PageOptions = {}): Promise<void> {
  const text = await Deno.readTextFile(join(ROOT, path));
  const steps = stepsOf(options.section === undefined ? text : only(text, options.section));
  await using shell = new Shell(machine, options);
  const bindings = new Bindings();
  for (const step of steps) {
    const given = { ...step, command: replaced(bindings.applied(step.command), options.replace ?? {}) };
    if (step.edits !== undefined) {
      await editYaml(join(machine.home, step.edits), given.command);
      continue;
    }
    const where = `${path}:${step.line}: ${given.command}`;
    const { code, lines } = await shell.run(given);
    if (code !== 0) throw new Error(`${where}\nended with ${code}:\n${lines.join("\n")}`);
    const shown = step.shown?.map((line) => line.replaceAll("/home/ada", machine.home))
      .map((line) => options.varies === undefined ? line : line.replaceAll(options.varies, "..."));
    const missing = shown && firstMissing(shown, lines, bindings);
    if (missing !== undefined) throw new Error(`${where}\n${missing}\nThe run printed:\n${lines.join("\n")}`);
  }
}

/** A page without its other sections; lines keep their numbers. */
function only(markdown: string, heading: string): string {
  let inside = false;
  const lines = markdown.split("\n").map((line) => {
    if (line.startsWith("## ")) inside = line === `## ${heading}`;
    return inside ? line : "";
  });
  if (lines.every((line) => line === "")) throw new Error(`The page has no section ${heading}`);
  return lines.join("\n");
}

/** Puts the values into a file as a person would: what is there and is not named stays. */
async function editYaml(path: string, text: string): Promise<void> {
  const before = parseYaml(await Deno.readTextFile(path)) as Tree | null;
  await Deno.writeTextFile(path, stringifyYaml(merged(before ?? {}, parseYaml(text) as Tree)));
}

interface Tree {
  [key: string]: unknown;
}

function merged(into: Tree, from: Tree): Tree {
  const isTree = (value: unknown): value is Tree =>
    typeof value === "object" && value !== null && !Array.isArray(value);
  const entries = Object.entries(from).map(([key, value]) => {
    const old = into[key];
    return [key, isTree(value) ? merged(isTree(old) ? old : {}, value) : value];
  });
  const both = { ...into, ...Object.fromEntries(entries) } as Tree;
  return Object.fromEntries(Object.entries(both).filter(([, value]) => value !== null));
}

function replaced(command: string, names: Readonly<Record<string, string>>): string {
  return Object.entries(names).reduce((text, [name, own]) => text.replaceAll(name, own), command);
}

/** One bash for all commands of a page. */
class Shell implements AsyncDisposable {
  readonly #machine: Machine;
  readonly #child: Deno.ChildProcess;
  readonly #stdin: WritableStreamDefaultWriter<Uint8Array<ArrayBuffer>>;
  readonly #log: string;
  readonly #env: Record<string, string>;
  readonly #wrapped: boolean;
  #count = 0;
  #printed = 0;

  constructor(machine: Machine, { env = {}, wrapper = [] }: PageOptions) {
    this.#machine = machine;
    this.#log = join(machine.base, "output");
    Deno.writeTextFileSync(this.#log, "");
    this.#wrapped = wrapper.length > 0;
    this.#env = {
      PATH: `${machine.bin}:${Deno.env.get("PATH")}`,
      HOME: machine.home,
      TMPDIR: join(machine.base, "tmp"),
      DENO_DIR: Deno.env.get("DENO_DIR") ?? join(Deno.env.get("HOME") ?? "/root", ".cache/deno"),
      LANG: "C.UTF-8",
      NO_COLOR: "1",
      ...env,
    };
    const [program, ...args] = [...wrapper, "bash", "--norc"];
    this.#child = new Deno.Command(program!, {
      args,
      cwd: machine.home,
      clearEnv: true,
      env: this.#env,
      stdin: "piped",
      stdout: "null",
      stderr: "null",
    }).spawn();
    this.#stdin = this.#child.stdin.getWriter();
  }

  /** Runs one command; what runs on in the background may print into a later one's lines. */
  async run({ command }: Step): Promise<{ code: number; lines: string[] }> {
    const name = join(this.#machine.base, `step${++this.#count}`);
    // A block stops at its first failing line, as a reader would.
    await Deno.writeTextFile(name, `${command}\n`);
    const line = `set -e -o pipefail; . ${name} < /dev/null >> ${this.#log} 2>&1; echo $? > ${name}.new\n`;
    await this.#write(
      `trap 'code=$?; set +e; kill $(jobs -p) 2> /dev/null; echo $code > ${name}.code' EXIT\n(exit 0)\n${line}mv ${name}.new ${name}.code\n`,
    );
    const code = await this.#exitCode(`${name}.code`);
    const output = await Deno.readTextFile(this.#log);
    const lines = output.slice(this.#printed).split("\n");
    this.#printed = output.length;
    if (lines.at(-1) === "") lines.pop();
    return { code, lines };
  }

  async #write(text: string): Promise<void> {
    await this.#stdin.write(new TextEncoder().encode(text));
  }

  async #exitCode(path: string): Promise<number> {
    const deadline = Date.now() + COMMAND_TIMEOUT_MS;
    for (;;) {
      const text = await Deno.readTextFile(path).catch(() => "");
      if (text.endsWith("\n")) return Number(text);
      if (Date.now() > deadline) return -1;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }

  /** Stops what the page has left running. */
  async [Symbol.asyncDispose](): Promise<void> {
    const ending = "set +e; trap - EXIT; kill $(jobs -p) 2> /dev/null; wait; exit\n";
    await this.#write(ending).catch(() => {});
    await this.#stdin.close().catch(() => {});
    const timer = setTimeout(() => this.#child.kill("SIGKILL"), 30_000);
    await this.#child.status;
    clearTimeout(timer);
    if (this.#wrapped) return;
    // A broker in the background, also after a step that ended the shell.
    await new Deno.Command(join(this.#machine.bin, "taskd"), {
      args: ["stop"],
      clearEnv: true,
      env: this.#env,
      stdout: "null",
      stderr: "null",
    }).output();
  }
}
