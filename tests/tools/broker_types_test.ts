import { assertEquals } from "@std/assert";
import { brokerTypes, TYPES } from "./broker_types.ts";

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
  const message = "run `deno run -A tests/tools/broker_types.ts`";
  assertEquals(await Deno.readTextFile(TYPES), await formatted(await brokerTypes()), message);
});
