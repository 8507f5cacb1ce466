import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { join } from "@std/path/join";
import { connect } from "../../lib/client/client.ts";
import { Place } from "./daemon_process.ts";
import { BEARER, HttpDaemon, ServeCommand, TOKEN } from "./_http.ts";
import { longTest } from "../support/long.ts";

/** What `go tool pprof -top`, or another of its reports, says of a profile. */
async function pprof(place: Place, bytes: Uint8Array, report = "-top"): Promise<string> {
  const file = join(place.directory, "profile.pb.gz");
  await Deno.writeFile(file, bytes);
  const { success, stdout, stderr } = await new Deno.Command("go", {
    args: ["tool", "pprof", report, file],
    env: { PPROF_TMPDIR: place.directory },
  }).output();
  assert(success, new TextDecoder().decode(stderr));
  return new TextDecoder().decode(stdout);
}

// conformance: 4.http.pprof
longTest("profiles taken with the program's own permissions are files that go tool pprof reads", async () => {
  await using place = new Place();
  await using serving = new ServeCommand(place, ["-http", "127.0.0.1:0"], { BSTORE_TOKEN: TOKEN });
  await serving.serving();
  const get = (path: string) => fetch(`${serving.url}/debug/pprof/${path}`, { headers: BEARER });
  for (const [path, type] of [["profile", "cpu"], ["heap", "inuse_space"], ["allocs", "inuse_space"]] as const) {
    const response = await get(`${path}?seconds=0.3`);
    assertEquals([response.status, response.headers.get("content-type")], [200, "application/octet-stream"]);
    assertEquals(response.headers.get("content-disposition"), `attachment; filename="${path}.pb.gz"`);
    assertMatch(await pprof(place, new Uint8Array(await response.arrayBuffer())), new RegExp(`Type: ${type}`));
  }
  const index = await (await get("")).text();
  for (const path of ["profile?seconds=30", "heap", "allocs"]) assertStringIncludes(index, path);
  assertEquals(await serving.stop(), 0);
  assertEquals(serving.stderr.filter((line) => line.includes("defect")), []);
});

// conformance: 4.http.pprof
longTest("a profile shows what the workers do, each sample with its thread", async () => {
  await using place = new Place();
  await using serving = new ServeCommand(place, ["-http", "127.0.0.1:0"], { BSTORE_TOKEN: TOKEN });
  await serving.serving();
  using client = await connect(place.socket);
  await client.call("create", { db: "app" });
  await client.call("open", { db: "app" });
  const tagsOf = async (path: string) => {
    const taking = fetch(`${serving.url}/debug/pprof/${path}?seconds=1`, { headers: BEARER });
    const until = taking.then(() => true);
    while (!await Promise.race([until, client.call("verify", { db: "app" }).then(() => false)]));
    return await pprof(place, new Uint8Array(await (await taking).arrayBuffer()), "-tags");
  };
  const cpu = await tagsOf("profile");
  for (const thread of ["main", "sessions-1", "work-1"]) assertStringIncludes(cpu, thread);
  // What is still live when a sample ends is for the garbage collector to say: another try, then.
  while (!/work-\d/.test(await tagsOf("heap")));
});

// conformance: 4.http.pprof
Deno.test("a profile asks for seconds above 0, one at a time, and is cut off at the write budget", async () => {
  await using place = new Place();
  await using http = await HttpDaemon.start(place, { http: { timeouts: { write_ms: 6_000 } } });
  for (const seconds of ["0", "-1", "x", "", "NaN", "Infinity"]) {
    const response = await http.fetch(`/debug/pprof/profile?seconds=${seconds}`);
    assertEquals([response.status, (await response.json()).code], [400, "invalid_request"], seconds);
  }
  const { taken } = await begin(http, "/debug/pprof/profile?seconds=3600");
  const first = await taken;
  assertEquals(first.status, 200);
  // An hour would have ended without an answer.
  assertMatch(await pprof(place, new Uint8Array(await first.arrayBuffer())), /Type: cpu/);
});

/** Whether a profile is being taken now. */
async function isBusy(http: HttpDaemon): Promise<boolean> {
  const response = await http.fetch("/debug/pprof/heap?seconds=0.01");
  await response.body?.cancel();
  return response.status === 409;
}

/** Begins a long profile, and waits until it is being taken: of two that are asked for at once, either may be refused. */
async function begin(http: HttpDaemon, path: string, init: RequestInit = {}): Promise<{ taken: Promise<Response> }> {
  for (;;) {
    let refused = false;
    const taken = http.fetch(path, init).then((response) => {
      refused = response.status === 409;
      return response;
    });
    taken.catch(() => {});
    while (!refused) if (await isBusy(http)) return { taken };
    await (await taken).body?.cancel();
  }
}

Deno.test("a client that goes away ends its profile, and a shutdown does not wait for one", async () => {
  await using place = new Place();
  await using http = await HttpDaemon.start(place);
  const leave = new AbortController();
  const left = await begin(http, "/debug/pprof/profile?seconds=80", { signal: leave.signal });
  leave.abort();
  await left.taken.catch(() => {});
  while (await isBusy(http));
  const cut = await begin(http, "/debug/pprof/profile");
  assertEquals(await http.daemon.stop(), 0);
  await cut.taken.then((response) => response.body?.cancel(), () => {});
});
