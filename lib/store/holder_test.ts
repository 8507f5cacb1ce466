import { assert, assertEquals } from "@std/assert";
import { VirtualClock } from "../../tests/support/clock.ts";
import { withDirectory } from "../../tests/support/stores.ts";
import { systemClock, systemRandom } from "../clock.ts";
import { Holder } from "./holder.ts";

const HOLDER = new URL("./holder.ts", import.meta.url).href;

function holderIn(directory: string, clock = systemClock): Holder {
  return new Holder(directory, "cli", { random: systemRandom, clock });
}

/** Another process that takes a holder's name in `directory` and then lives on. */
async function neighbour(directory: string): Promise<{ name: string; kill: () => Promise<void> }> {
  const program = `
    import { Holder } from ${JSON.stringify(HOLDER)};
    import { systemClock, systemRandom } from ${JSON.stringify(new URL("../clock.ts", import.meta.url).href)};
    const holder = new Holder(Deno.args[0], "daemon", { random: systemRandom, clock: systemClock });
    console.log(holder.next());
    setInterval(() => {}, 1 << 30);
  `;
  const file = await Deno.makeTempFile({ suffix: ".ts" });
  await Deno.writeTextFile(file, program);
  const config = new URL("../../deno.json", import.meta.url).pathname;
  const child = new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--no-prompt", "--quiet", "--no-check", "--config", config, file, directory],
    stdout: "piped",
  }).spawn();
  let text = "";
  const reader = child.stdout.pipeThrough(new TextDecoderStream()).getReader();
  while (!text.includes("\n")) {
    const { value, done } = await reader.read();
    assert(!done, "the neighbour ended early");
    text += value;
  }
  await Deno.remove(file);
  return {
    name: text.trim(),
    kill: async () => {
      child.kill("SIGKILL");
      await child.status;
      await reader.cancel();
    },
  };
}

Deno.test("a process that lives is never dead; killed, it is dead at once", () =>
  withDirectory(async (directory) => {
    const holder = holderIn(directory);
    const { name, kill } = await neighbour(directory);
    try {
      for (let i = 0; i < 3; i++) assertEquals(holder.isDead(name), false);
    } finally {
      await kill();
    }
    assertEquals(holder.isDead(name), true);
    assertEquals(holder.isDead(name), true);
  }));

Deno.test("a process that could not give a lease back and ends is dead to all others", () =>
  withDirectory((directory) => {
    const [ended, other] = [holderIn(directory), holderIn(directory)];
    const name = ended.next();
    assertEquals(other.isDead(name), false);
    ended.retire(name);
    ended.close();
    assertEquals(other.isDead(name), true);
    return Promise.resolve();
  }));

Deno.test("concurrent checks agree that a dead process is dead", () =>
  withDirectory((directory) => {
    const holder = holderIn(directory);
    holder.next();
    const dead = `${directory}/holders/0123456789abcdef`;
    Deno.writeFileSync(dead, new Uint8Array());
    using looking = Deno.openSync(dead, { read: true });
    looking.lockSync(false);
    assertEquals(holder.isDead("cli:0123456789abcdef:00000000"), true);
    holder.close();
    return Promise.resolve();
  }));

Deno.test("two holders of one process see each other as alive", () =>
  withDirectory((directory) => {
    const [one, two] = [holderIn(directory), holderIn(directory)];
    const [first, second] = [one.next(), two.next()];
    for (let i = 0; i < 3; i++) {
      assertEquals([one.isDead(first), one.isDead(second), two.isDead(first)], [false, false, false]);
    }
    one.close();
    two.close();
    return Promise.resolve();
  }));

Deno.test("a holder of another workspace, a departed one or an invalid name is unknown", () =>
  withDirectory((directory) => {
    const [here, there] = [holderIn(`${directory}/a`), holderIn(`${directory}/b`)];
    const name = there.next();
    here.next();
    assertEquals(here.isDead(name), false);
    there.close();
    assertEquals(here.isDead(name), false);
    for (const strange of ["", "cli", "cli:../../etc/passwd:00000000", "cli:0123456789abcdef", `${name}x`]) {
      assertEquals(here.isDead(strange), false, strange);
    }
    here.close();
    return Promise.resolve();
  }));

Deno.test("every lease has a name of its own, and a process leaves nothing behind when it closes", () =>
  withDirectory((directory) => {
    const holder = holderIn(directory);
    assertEquals([...Deno.readDirSync(directory)], []);
    const names = new Set(Array.from({ length: 100 }, () => holder.next()));
    assertEquals(names.size, 100);
    assertEquals([...Deno.readDirSync(`${directory}/holders`)].length, 1);
    holder.close();
    holder.close();
    assertEquals([...Deno.readDirSync(`${directory}/holders`)], []);
    return Promise.resolve();
  }));

Deno.test("signs of life stay while a dead process may be checked, and while a process lives", () =>
  withDirectory((directory) => {
    const clock = new VirtualClock(Date.now());
    const living = holderIn(directory, clock);
    living.next();
    const dead = `${directory}/holders/0123456789abcdef`;
    Deno.writeFileSync(dead, new Uint8Array());
    Deno.utimeSync(dead, 0, 0); // it was taken long ago, and the time of its death is unknown
    const count = () => [...Deno.readDirSync(`${directory}/holders`)].length;
    const sweep = () => {
      const holder = holderIn(directory, clock);
      holder.next();
      holder.close();
    };
    sweep();
    assertEquals(count(), 2);
    assertEquals(living.isDead("cli:0123456789abcdef:00000000"), true);
    clock.advance(60_000);
    sweep();
    assertEquals(count(), 2);
    clock.advance(120_000);
    sweep();
    assertEquals(count(), 1);
    living.close();
    return Promise.resolve();
  }));
