import { assertEquals, assertRejects } from "@std/assert";
import { systemClock } from "../../lib/clock.ts";
import { TaskdError } from "../../lib/errors.ts";
import { RedteamContext } from "./context.ts";
import type { SecurityPromise, Trial } from "./security_promise.ts";
import { runRedteam, type TriedPromise } from "./run_promises.ts";

/** Tries promises that do what is given. */
async function tried(
  ...runs: ((trial: Trial, context: RedteamContext) => void | Promise<void>)[]
): Promise<TriedPromise[]> {
  await using context = await RedteamContext.open({
    temporary: Deno.env.get("TMPDIR") ?? "/tmp",
    env: () => undefined,
    deno_path: "/deno",
    deno_cache_dir: "/cache",
    host_sandboxes: { why: "not in this test" },
    containers: { why: "not in this test" },
  });
  const promises = runs.map((run): SecurityPromise => ({ id: "egress.one", promise: "It holds", attacks: "x", run }));
  const report = await runRedteam({ promises, context, clock: systemClock, deadline_ms: 200 });
  assertEquals(report.held + report.holes + report.skipped, runs.length);
  return report.promises;
}

Deno.test("a promise holds only if there were attacks and all were refused", async () => {
  const [held, hole, nothing] = await tried(
    (trial) => trial.attempt("a", true),
    (trial) => {
      trial.attempt("a", true);
      trial.expect("b", "200", "403");
    },
    () => {},
  );
  assertEquals([held!.verdict, held!.attempts], ["held", 1]);
  assertEquals([hole!.verdict, hole!.attempts, hole!.holes], ["hole", 2, ["b: 200"]]);
  assertEquals([nothing!.verdict, nothing!.holes], ["hole", ["nothing was tried"]]);
});

Deno.test("a promise that fails, never ends or fails its control is a hole", async () => {
  const [thrown, endless, broken] = await tried(
    (trial) => {
      trial.attempt("a", false);
      throw new Error("gone");
    },
    () => new Promise(() => {}),
    (trial) => {
      trial.attempt("a", true);
      trial.control("the allowed way", false, "503");
    },
  );
  assertEquals(thrown!.holes, ["a: it went through", "it could not be tried to the end: gone"]);
  assertEquals([endless!.verdict, endless!.holes.length], ["hole", 1]);
  assertEquals(broken!.holes, ["the allowed way has to work and does not: 503"]);
});

Deno.test("a promise that cannot be tried here is skipped with the reason, and is no hole", async () => {
  const [skipped] = await tried((trial) => trial.skip("there is no podman"));
  assertEquals([skipped!.verdict, skipped!.why, skipped!.holes], ["skipped", "there is no podman", []]);
});

Deno.test("of many holes the first are reported, and the number of the others", async () => {
  const [hole] = await tried((trial) => {
    for (let at = 0; at < 25; at++) trial.attempt(String(at), false);
  });
  assertEquals([hole!.holes.length, hole!.holes.at(-1)], [21, "and 5 more"]);
});

Deno.test("an interrupt ends the run between two promises and removes the scratch folder", async () => {
  const interrupt = new AbortController();
  let scratch = "";
  const run = async () => {
    await using context = await RedteamContext.open({
      temporary: "/tmp",
      env: () => undefined,
      deno_path: "/deno",
      deno_cache_dir: "/cache",
      host_sandboxes: { why: "not in this test" },
      containers: { why: "not in this test" },
    });
    scratch = context.scratch;
    await Deno.writeTextFile(`${await context.folder()}/left`, "x");
    const promise: SecurityPromise = {
      id: "egress.one",
      promise: "It holds",
      attacks: "x",
      run: (trial) => {
        trial.attempt("a", true);
        interrupt.abort();
      },
    };
    await runRedteam({ promises: [promise, promise], context, clock: systemClock, signal: interrupt.signal });
  };
  assertEquals((await assertRejects(run, TaskdError)).code, "interrupted");
  await assertRejects(() => Deno.stat(scratch), Deno.errors.NotFound);
});
