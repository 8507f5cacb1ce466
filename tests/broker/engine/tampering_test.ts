import { assertEquals, assertRejects } from "@std/assert";
import { TaskdError } from "../../../lib/errors.ts";
import { BrokerBench } from "./bench.ts";

const NOT_JSON = "{";

Deno.test("attack: a brief rewritten or damaged on the disk is not shown", async () => {
  await using bench = await BrokerBench.start();
  const { id } = await bench.submit();
  await bench.reaches(id, "awaiting_approval");
  const path = `${bench.home}/.taskd/audit/${id}.brief.json`;
  const brief = await Deno.readTextFile(path);
  assertEquals(await bench.engine.brief(id), JSON.parse(brief));
  for (const text of [brief.replace('"flags":[', '"flags": ['), `${brief} `, NOT_JSON, ""]) {
    await Deno.writeTextFile(path, text);
    assertEquals((await assertRejects(() => bench.engine.brief(id), TaskdError)).code, "corrupt");
  }
});

Deno.test("attack: a diff rewritten on the disk is not shown, and the task can be denied", async () => {
  await using bench = await BrokerBench.start();
  const { id } = await bench.submit();
  await bench.reaches(id, "awaiting_approval");
  const path = `${bench.home}/.taskd/audit/${id}.diff`;
  const diff = await Deno.readTextFile(path);
  assertEquals(new TextDecoder().decode(await bench.engine.diff(id)), diff);
  await Deno.writeTextFile(path, diff.replaceAll("+hello", "+harmless"));
  assertEquals((await assertRejects(() => bench.engine.diff(id), TaskdError)).code, "corrupt");
  await bench.engine.deny(id, "another process writes here");
  assertEquals((await bench.engine.view(id)).outcome, "denied");
});
