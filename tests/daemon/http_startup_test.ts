import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { createHash } from "node:crypto";
import { Place } from "./daemon_process.ts";
import { BEARER, ServeCommand, TOKEN } from "./_http.ts";
import { longTest } from "../support/long.ts";

const SHORT = "fifteen-letters";

/** What makes a listener impossible, and its message. */
const REFUSED: { why: string; words: string[]; env?: Record<string, string>; said: string }[] = [
  {
    why: "an address that others reach, without the acknowledgment",
    words: ["-http", "0.0.0.0:0", "-token", TOKEN],
    said: "Cannot listen on 0.0.0.0: it is not a loopback address",
  },
  {
    why: "an empty host, which is every address",
    words: ["-http", ":0", "-token", TOKEN],
    said: "Cannot listen on 0.0.0.0: it is not a loopback address",
  },
  {
    why: "an IPv6 address that others reach",
    words: ["-http", "[::]:0", "-token", TOKEN],
    said: "Cannot listen on ::: it is not a loopback address",
  },
  {
    why: "an address that others reach, with a generated token",
    words: ["-http", "0.0.0.0:0", "-http-allow-non-loopback"],
    said: "with a generated token",
  },
  {
    why: "a short token on the command line",
    words: ["-http", "127.0.0.1:0", "-token", SHORT],
    said: "the token: it is shorter than 16 characters",
  },
  {
    why: "a short token in the environment",
    words: ["-http", "127.0.0.1:0"],
    env: { BSTORE_TOKEN: SHORT },
    said: "the token: it is shorter than 16 characters",
  },
  {
    why: "a token that no header can carry",
    words: ["-http", "127.0.0.1:0", "-token", "sixteen letters and spaces"],
    said: "spaces, control or non-ASCII",
  },
  {
    why: "an invalid address",
    words: ["-http", "127.0.0.1"],
    said: "it is not host:port",
  },
  {
    why: "a port that does not exist",
    words: ["-http", "127.0.0.1:99999"],
    said: "it is not host:port",
  },
  {
    why: "a host that cannot be one",
    words: ["-http", "example..com:9464", "-http-allow-non-loopback", "-token", TOKEN],
    said: "it is not host:port",
  },
  {
    why: "a short token on the command line, without a listener",
    words: ["-token", SHORT],
    said: "the token: it is shorter than 16 characters",
  },
  {
    why: "a short token in the environment, without a listener",
    words: [],
    env: { BSTORE_TOKEN: SHORT },
    said: "the token: it is shorter than 16 characters",
  },
];

// conformance: 5.4 5.5 7.non_loopback_flag 7.non_loopback_token 7.short_token
longTest("each rule of the listener is a startup error; nothing is written and no token shown", async (t) => {
  await using place = new Place();
  const messages = new Map<string, string>();
  for (const { why, words, env, said } of REFUSED) {
    await t.step(why, async () => {
      await using serving = new ServeCommand(place, words, env);
      assertEquals(await serving.ended(), 2);
      const text = serving.stderr.join("\n");
      assertStringIncludes(text, said);
      assertEquals(text.includes(SHORT) || text.includes(TOKEN), false);
      // The command line makes the store's directory before it knows what is wrong; nothing is put into it.
      assertEquals([...filesBelow(place.directory)], []);
      messages.set(said, text);
    });
  }
  assertEquals(new Set(messages.values()).size, new Set(REFUSED.map(({ said }) => said)).size);
});

longTest("a port that is taken is a startup error, and the store is free for the next daemon", async () => {
  await using place = new Place();
  using taken = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const address = `127.0.0.1:${taken.addr.port}`;
  {
    await using serving = new ServeCommand(place, ["-http", address]);
    assertEquals(await serving.ended(), 1);
    assertStringIncludes(serving.stderr.join("\n"), `Cannot listen on ${address}: the address is in use`);
    assert(!serving.stderr.some((line) => line.includes("http token")));
  }
  await using serving = new ServeCommand(place, []);
  await serving.serving();
});

// conformance: 5.3 1.http_optional
Deno.test("HTTP is off unless it is asked for", async () => {
  await using place = new Place();
  await using serving = new ServeCommand(place, []);
  await serving.serving();
  assert(!serving.stderr.some((line) => line.includes("http")));
  assertEquals(await listeningPorts(serving.pid), 0);
});

// conformance: 5.4
Deno.test("an address that others reach is served with both the acknowledgment and a token", async () => {
  await using place = new Place();
  const words = ["-http", "0.0.0.0:0", "-http-allow-non-loopback"];
  await using serving = new ServeCommand(place, words, { BSTORE_TOKEN: TOKEN });
  await serving.serving();
  const { port } = new URL(serving.url);
  const response = await fetch(`http://127.0.0.1:${port}/rpc`, {
    method: "POST",
    headers: { ...BEARER, "content-type": "application/json" },
    body: '{"op":"databases"}',
  });
  assertEquals(await response.json(), { ok: true, databases: [] });
});

// conformance: 5.6 5.7 5.3 8.token
longTest("a generated token is printed once, works, and is otherwise shown as 8 characters", async () => {
  await using place = new Place();
  await using serving = new ServeCommand(place, ["-http", "127.0.0.1:0", "-json"]);
  await serving.serving();
  const token = serving.stderr.map((line) => /^taskd: http token: (\S+)$/.exec(line)?.[1]).find((found) => found)!;
  assert(token.length >= 16);
  const fingerprint = createHash("sha256").update(token).digest("hex").slice(0, 8);
  const { host } = new URL(serving.url);
  assert(
    serving.stderr.includes(`taskd: http listening on ${host} (bearer auth, token fingerprint ${fingerprint})`),
    serving.stderr.join("\n"),
  );
  const answers = await everyAnswer(serving.url, token);
  assertEquals(await serving.stop(), 0);
  const output = [serving.stdout, ...serving.stderr].join("\n");
  assertEquals(output.split(token).length - 1, 1);
  assertEquals(answers.filter((text) => text.includes(token)), []);
  await using again = new ServeCommand(place, ["-http", "127.0.0.1:0"]);
  await again.serving();
  assert(!again.stderr.join("\n").includes(token));
});

// conformance: 5.7 5.9 1.env_token
Deno.test("a token of the environment is in no output, answer, metric, store or process list", async () => {
  await using place = new Place();
  await using serving = new ServeCommand(place, ["-http", "127.0.0.1:0", "-json"], { BSTORE_TOKEN: TOKEN });
  await serving.serving();
  const line = serving.stderr.find((line) => line.includes("http listening on"))!;
  assertMatch(line, /\(bearer auth, token fingerprint [0-9a-f]{8}\)$/);
  const answers = await everyAnswer(serving.url, TOKEN);
  assertEquals(answers.filter((text) => text.includes(TOKEN)), []);
  assertEquals((await commandLines(serving.pid)).includes(TOKEN), false);
  for (const file of filesBelow(place.directory)) {
    if (file !== place.socket) assert(!(await Deno.readTextFile(file)).includes(TOKEN), file);
  }
  assertEquals(await serving.stop(), 0);
  assertEquals([serving.stdout, ...serving.stderr].join("\n").includes(TOKEN), false);
});

// conformance: 5.9
Deno.test("a token of the command line is in the process list and nowhere else", async () => {
  await using place = new Place();
  await using serving = new ServeCommand(place, ["-http", "127.0.0.1:0", "-token", TOKEN]);
  await serving.serving();
  assert((await commandLines(serving.pid)).includes(TOKEN));
  assertEquals((await everyAnswer(serving.url, TOKEN)).filter((text) => text.includes(TOKEN)), []);
  assertEquals(await serving.stop(), 0);
  assertEquals([serving.stdout, ...serving.stderr].join("\n").includes(TOKEN), false);
});

/** Heads and bodies of answers of every kind. */
async function everyAnswer(url: string, token: string): Promise<string[]> {
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
  const wrong = { authorization: `Bearer ${token}x` };
  const requests: [string, RequestInit][] = [
    ["/healthz", {}],
    ["/metrics", { headers }],
    ["/metrics", { headers: wrong }],
    ["/nowhere", { headers }],
    ["/metrics", { headers, method: "PUT" }],
    ["/rpc", { headers, method: "POST", body: '{"op":"status"}' }],
    ["/rpc", { headers, method: "POST", body: `{"op":"open","db":"none","token":1}` }],
    ["/rpc", { headers, method: "POST", body: "not json" }],
    ["/debug/pprof/", { headers }],
    ["/debug/pprof/profile?seconds=-1", { headers }],
  ];
  return await Promise.all(requests.map(async ([path, init]) => {
    const response = await fetch(url + path, init);
    return `${response.status} ${JSON.stringify([...response.headers])} ${await response.text()}`;
  }));
}

/** The command lines of a process and its children. */
async function commandLines(pid: number): Promise<string> {
  const children = (await Deno.readTextFile(`/proc/${pid}/task/${pid}/children`)).trim().split(" ").filter(Boolean);
  const lines = [pid, ...children].map((pid) => Deno.readTextFile(`/proc/${pid}/cmdline`));
  return (await Promise.all(lines)).join("\n");
}

function* filesBelow(directory: string): Generator<string> {
  for (const entry of Deno.readDirSync(directory)) {
    const path = `${directory}/${entry.name}`;
    if (entry.isDirectory) yield* filesBelow(path);
    else yield path;
  }
}

/** How many TCP ports a process listens on. */
async function listeningPorts(pid: number): Promise<number> {
  const inodes = new Set<string>();
  for await (const { name } of Deno.readDir(`/proc/${pid}/fd`)) {
    const target = await Deno.readLink(`/proc/${pid}/fd/${name}`).catch(() => "");
    inodes.add(/^socket:\[(\d+)\]$/.exec(target)?.[1] ?? "");
  }
  const tables = ["/proc/net/tcp", "/proc/net/tcp6"].map((path) => Deno.readTextFileSync(path));
  const rows = tables.join("\n").split("\n").map((line) => line.trim().split(/\s+/));
  return rows.filter((row) => row[3] === "0A" && inodes.has(row[9] ?? "")).length;
}
