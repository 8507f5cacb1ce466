import { assert, assertEquals, assertRejects } from "@std/assert";
import { TaskdError } from "../../../lib/errors.ts";
import { ModelServer } from "./_model_server.ts";
import { Place } from "./_sandbox.ts";

const HOSTILE = import.meta.resolve("../../../cli/redteam/hostile_agent.ts");

// conformance: b1.sandbox b2.ceiling.not_in_sandbox b4.admin_unreachable
Deno.test("nothing in the sandbox's process gets out of the work folder and past the gateway", async () => {
  await using place = new Place();
  place.file("secret.txt", "secret");
  place.file("ledger", "what is spent");
  place.file("module.ts", "export default 1;");
  place.file("work, it/a.txt", "a");
  Deno.mkdirSync(`${place.work}/deep`);
  Deno.symlinkSync("../secret.txt", `${place.work}/link.txt`);
  Deno.symlinkSync(place.root, `${place.work}/folder`);
  Deno.symlinkSync(place.root, `${place.work}/deep/folder`);
  Deno.symlinkSync(".", `${place.work}/loop`);
  // Configuration that a repository could bring along.
  place.file(
    "work, it/deno.json",
    JSON.stringify({ permissions: { default: { read: true } }, imports: { "node:fs": "./a.txt" } }),
  );
  place.file("work, it/package.json", JSON.stringify({ dependencies: { "left-pad": "1.3.0" } }));
  place.file("work, it/.env", "HOME=/from/the/repository");
  let reached = 0;
  await using other = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, () => {
    reached++;
    return new Response("other");
  });
  await using gateway = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen() {} },
    ({ url }) =>
      new URL(url).pathname === "/away"
        ? Response.redirect(`http://127.0.0.1:${other.addr.port}/`)
        : new Response("from the gateway"),
  );
  const unix = () => new Response("unix");
  await using _outside = Deno.serve({ path: `${place.root}/s.sock`, onListen() {} }, () => (reached++, unix()));
  await using _inside = Deno.serve({ path: `${place.work}/s.sock`, onListen() {} }, () => (reached++, unix()));
  const gateway_url = `http://127.0.0.1:${gateway.addr.port}`;
  const targets = {
    work: place.work,
    outside: place.root,
    other_port: other.addr.port,
    socket: `${place.root}/s.sock`,
    redirecting: `${gateway_url}/away`,
    broker_pid: Deno.pid,
  };
  const before = names(place.root);
  const sandbox = await place.runtime(HOSTILE).start(place.spec(gateway_url, { instruction: JSON.stringify(targets) }));
  const end = await sandbox.wait();
  assertEquals(end.code, 0, JSON.stringify(place.lines));
  const results: { name: string; refused: string | null }[] = place.lines.map(({ text }) => JSON.parse(text));
  assert(results.length > 55);
  assertEquals(results.filter(({ refused }) => refused === null), []);
  assertEquals(reached, 0);
  assertEquals(Deno.readTextFileSync(`${place.work}/allowed.txt`), "from the gateway");
  assertEquals(names(place.root), before);
  assertEquals(Deno.readTextFileSync(`${place.root}/secret.txt`), "secret");
  // The repository's links are back as they were.
  assertEquals(Deno.readLinkSync(`${place.work}/link.txt`), "../secret.txt");
  assertEquals(Deno.readLinkSync(`${place.work}/deep/folder`), place.root);
  assertEquals(Deno.readLinkSync(`${place.work}/loop`), ".");
});

Deno.test("the agent sees links as links: what it writes there is refused, and they stay links", async () => {
  await using place = new Place();
  place.file("outside.txt", "outside");
  Deno.mkdirSync(`${place.work}/src`);
  place.file("work, it/src/a.txt", "a");
  Deno.symlinkSync("../outside.txt", `${place.work}/link.txt`);
  Deno.symlinkSync("src", `${place.work}/current`);
  await using model = new ModelServer([
    { calls: [["list", { path: "." }], ["write", { path: "link.txt", content: "mine" }]] },
    { calls: [["write", { path: "current/b.txt", content: "mine" }], ["write", { path: "src/b.txt", content: "b" }]] },
    { calls: [["finish", { summary: "done" }]] },
  ]);
  await (await place.runtime().start(place.spec(model.url))).wait();
  const seen = JSON.stringify(model.asked.at(-1)!.body.messages);
  for (const part of ["current (link to ", "link.txt (link to ", "2 symbolic links", "through a symbolic link to "]) {
    assert(seen.includes(part), `${part} in ${seen}`);
  }
  assertEquals(Deno.readLinkSync(`${place.work}/link.txt`), "../outside.txt");
  assertEquals(Deno.readLinkSync(`${place.work}/current`), "src");
  assertEquals(Deno.readTextFileSync(`${place.work}/src/b.txt`), "b");
  assertEquals(Deno.readTextFileSync(`${place.root}/outside.txt`), "outside");
});

Deno.test("the embedded runtime refuses what it cannot confine, before anything is started", async () => {
  await using place = new Place();
  const spec = place.spec("http://127.0.0.1:1");
  const runtime = place.runtime();
  const command = {
    kind: "command",
    image: "i",
    command: ["c"],
    env: {},
    mounts: [],
    network: "n",
    max_pids: 1,
  } as const;
  const table = [
    [{ ...spec, workload: command }, "invalid_config"],
    [{ ...spec, task_id: "../x" }, "usage"],
    [{ ...spec, work_dir: "/" }, "usage"],
    [{ ...spec, work_dir: `${place.root}/absent` }, "not_found"],
    [place.spec("https://127.0.0.1:1"), "usage"],
    [place.spec("http://127.0.0.1:1,example.com"), "usage"],
    [place.spec("http://user@127.0.0.1:1"), "usage"],
  ] as const;
  for (const [refused, code] of table) {
    const error = await assertRejects(() => runtime.start(refused), TaskdError);
    assertEquals(error.code, code, error.message);
  }
  assertEquals(await runtime.version(), Deno.version.deno);
});

function names(folder: string): string[] {
  return [...Deno.readDirSync(folder)].map(({ name }) => name).sort();
}
