import { assertEquals } from "@std/assert";
import { launchFlags } from "../../cli/table/launch_flags.ts";
import { AGENT_NAMES } from "../../cli/table/broker_shared.ts";
import { SHELLS } from "../../cli/table/daemon.ts";
import { denoDirectory } from "../support/deno_directory.ts";
import { makePlace, type Place } from "./support/taskd.ts";

const MAIN = new URL("../../cli/main.ts", import.meta.url).pathname;

for (const shell of SHELLS) {
  Deno.test({
    name: `the completion script for ${shell} is one to ${shell}${await whyNot(shell)}`,
    ignore: !await isInstalled(shell),
    fn: async () => {
      await using place = await makePlace();
      const script = await scriptFile(place, shell);
      const { code, stderr } = await new Deno.Command(shell, { args: ["-n", script] }).output();
      assertEquals([code, new TextDecoder().decode(stderr)], [0, ""]);
    },
  });
}

Deno.test("bash completes commands, their second words, flags and what these take", async () => {
  await using place = await makePlace();
  const file = await scriptFile(place, "bash");
  await makeFiles(place);
  const complete = async (...words: string[]) => {
    const list = words.map((word) => `'${word}'`).join(" ");
    const script =
      `PATH="${place.base}/bin:$PATH"; source ${file}; COMP_WORDS=(taskd ${list}); COMP_CWORD=${words.length}; _taskd; printf '%s\\n' "\${COMPREPLY[@]}"`;
    const { stdout } = await new Deno.Command("bash", { args: ["-c", script], cwd: `${place.base}/files` }).output();
    return lines(stdout);
  };
  assertEquals(await complete("fo"), ["fork"]);
  assertEquals(await complete("fork", "shop", "try", "-t"), ["--ttl"]);
  assertEquals(await complete("submit", "--agent", "=", "co"), ["codex"]);
  assertEquals(await complete("submit", "--agent", "="), [...AGENT_NAMES]);
  assertEquals(await complete("create", "shop", "--from", "a"), ["a b.db"]);
  assertEquals(await complete("fork", "shop", ""), []);
});

Deno.test({
  name: `fish completes commands, their second words, flags and what these take${await whyNot("fish")}`,
  ignore: !await isInstalled("fish"),
  fn: async () => {
    await using place = await makePlace();
    const file = await scriptFile(place, "fish");
    await makeFiles(place);
    const complete = async (line: string) => {
      const { stdout } = await new Deno.Command("fish", {
        args: ["--no-config", "-c", `source ${file}; complete -C '${line}'`],
        env: { HOME: place.base, DENO_DIR: await denoDirectory(), PATH: pathOf(place) },
        cwd: `${place.base}/files`,
      }).output();
      return lines(stdout).map((text) => text.split("\t")[0]);
    };
    assertEquals(await complete("taskd fo"), ["fork"]);
    assertEquals(await complete("taskd submit --agent co"), ["codex"]);
    assertEquals(await complete("taskd submit --agent=co"), ["--agent=codex"]);
    assertEquals(await complete("taskd help session "), ["close", "flush", "open", "status"]);
    assertEquals(await complete("taskd create shop --from a"), ["a b.db"]);
    assertEquals(await complete("taskd fork shop "), []);
  },
});

Deno.test({
  name: `zsh completes commands, their second words, flags and what these take${await whyNot("zsh")}`,
  ignore: !await isInstalled("zsh"),
  fn: async () => {
    await using place = await makePlace();
    const file = await scriptFile(place, "zsh");
    await makeFiles(place);
    const offers: Record<string, string[]> = {
      "taskd fo": ["fork"],
      "taskd submit --agent co": ["codex"],
      "taskd submit --agent=co": ["codex"],
      "taskd help session ": ["open", "flush", "status", "close"],
      "taskd create shop --from a": ["a\\ b.db"],
      "taskd fork shop ": [],
    };
    assertEquals(await zshOffers(place, `source ${file}`, Object.keys(offers)), offers);
    // As it is installed: in a folder of $fpath, read when it is first needed.
    await Deno.mkdir(`${place.base}/functions`);
    await Deno.copyFile(file, `${place.base}/functions/_taskd`);
    assertEquals(await zshOffers(place, "true", ["taskd fo", "taskd fo"]), { "taskd fo": ["fork"] });
  },
});

Deno.test("completion refuses a shell it does not know", async () => {
  await using place = await makePlace();
  const { code, stderr } = await place.taskd("completion", "csh");
  assertEquals([code, stderr], [
    2,
    'taskd: "csh" is none of bash, zsh, fish\n  Write one of them\n',
  ]);
});

/** What zsh offers when Tab is pressed after each line, on a terminal of its own. */
async function zshOffers(place: Place, setup: string, typed: string[]): Promise<Record<string, string[]>> {
  const script = `
    zmodload zsh/zpty
    zpty shell "zsh -f -i"
    # The keys below are those of emacs; who has vi for an editor would get the keys of vi.
    zpty -w shell "bindkey -e"
    zpty -w shell "PROMPT= RPROMPT=; fpath=(${place.base}/functions $fpath); cd ${place.base}/files"
    zpty -w shell "autoload -Uz compinit; compinit -u -D; ${setup}"
    zpty -w shell 'compadd() {
      if [[ " \${(j: :)@} " != *\\ -[OAD]\\ * ]]; then
        local -a found; builtin compadd -A found "$@"; print -rl -- "offer:"$^found >> ${place.base}/offers
      fi
      builtin compadd "$@"
    }'
    for line; do
      zpty -w shell "print -r -- \${(qq):-line:$line} >> ${place.base}/offers"
      # Tab, and ^G, which gives the line up and means nothing to a terminal that zsh is not reading yet.
      zpty -w -n shell "$line"$'\\t\\C-g'
    done
    zpty -w shell "print do''ne"
    zpty -r shell ignored '*done*'
    zpty -d shell`;
  const args = ["-f", "-c", script, "zsh", ...typed];
  // With an editor that zsh would choose other keys for; and a shell that never says "done" is ended.
  const env = { HOME: place.base, DENO_DIR: await denoDirectory(), PATH: pathOf(place), EDITOR: "vi", VISUAL: "vi" };
  const signal = AbortSignal.timeout(60_000);
  const { code, stderr } = await new Deno.Command("zsh", { args, env, signal }).output();
  assertEquals([code, new TextDecoder().decode(stderr)], [0, ""]);
  const offers: Record<string, string[]> = {};
  let at: string[] = [];
  for (const line of (await Deno.readTextFile(`${place.base}/offers`)).split("\n")) {
    if (line.startsWith("line:")) offers[line.slice("line:".length)] = at = [];
    else if (line.startsWith("offer:") && line !== "offer:") at.push(line.slice("offer:".length));
  }
  await Deno.remove(`${place.base}/offers`);
  return offers;
}

/** The script of the shell, beside a program that it can ask. */
async function scriptFile(place: Place, shell: string): Promise<string> {
  const { stdout } = await place.taskd("completion", shell);
  const file = `${place.base}/script`;
  await Deno.writeTextFile(file, stdout);
  await Deno.mkdir(`${place.base}/bin`);
  const call = [Deno.execPath(), "run", ...launchFlags(), MAIN].join(" ");
  await Deno.writeTextFile(`${place.base}/bin/taskd`, `#!/bin/sh\nexec ${call} "$@"\n`, { mode: 0o755 });
  return file;
}

function pathOf({ base }: Place): string {
  return `${base}/bin:${Deno.env.get("PATH")}`;
}

async function makeFiles(place: Place): Promise<void> {
  await Deno.mkdir(`${place.base}/files`);
  await Deno.writeTextFile(`${place.base}/files/a b.db`, "");
}

function lines(output: Uint8Array): string[] {
  return new TextDecoder().decode(output).split("\n").filter(Boolean);
}

async function whyNot(program: string): Promise<string> {
  return await isInstalled(program) ? "" : ` (ignored: ${program} is not installed)`;
}

async function isInstalled(program: string): Promise<boolean> {
  try {
    return (await new Deno.Command(program, { args: ["--version"] }).output()).success;
  } catch {
    return false;
  }
}
