import { assertEquals } from "@std/assert";

const TYPES = new URL("../../broker/client/mod.d.mts", import.meta.url);
const TOOL = import.meta.dirname!;

async function brokerTypes(): Promise<string> {
  const args = ["run", "-A", "--quiet", "--no-check", "--config", `${TOOL}/deno.json`, `${TOOL}/main.ts`, "--print"];
  return new TextDecoder().decode((await new Deno.Command(Deno.execPath(), { args }).output()).stdout);
}

/** A text as the formatter writes it. */
async function formatted(text: string): Promise<string> {
  const child = new Deno.Command(Deno.execPath(), {
    args: ["fmt", "--ext=mts", "--line-width=120", "-"],
    stdin: "piped",
    stdout: "piped",
  }).spawn();
  const writer = child.stdin.getWriter();
  await writer.write(new TextEncoder().encode(text));
  await writer.close();
  return new TextDecoder().decode((await child.output()).stdout);
}

Deno.test("the declared types of the broker's client are those of its schemas", async () => {
  const message = "run `deno run -A --config tests/broker_types/deno.json tests/broker_types/main.ts`";
  assertEquals(await Deno.readTextFile(TYPES), await formatted(await brokerTypes()), message);
});
