import { assertEquals, assertRejects } from "@std/assert";
import { Background } from "./background.ts";

Deno.test("what is called is waited for, and its failure is its caller's alone", async () => {
  const failures: unknown[] = [];
  const background = new Background((error) => failures.push(error));
  const ending = Promise.withResolvers<string>();
  const order: string[] = [];
  const called = background.call(() => ending.promise).then((answer) => order.push(answer));
  const idle = background.idle().then(() => order.push("idle"));
  const failed = background.call(() => Promise.reject(new Error("refused")));
  await assertRejects(() => failed, Error, "refused");
  assertEquals(order, []);
  ending.resolve("answered");
  await Promise.all([called, idle]);
  assertEquals([order, failures], [["answered", "idle"], []]);
});
