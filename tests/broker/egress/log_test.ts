import { assert, assertEquals, assertMatch } from "@std/assert";
import { join } from "@std/path/join";
import { fillDisk, makeRoom } from "../../support/full_disk.ts";
import { whyNotMountable, withMount } from "../../support/mounts.ts";
import { Bench, credentials, Server } from "./_harness.ts";

const LIST = { "allowed.example": [80, 5432] };

Deno.test("every request leaves one line: client, target, result and reason", async () => {
  await using server = Server.start(async (conn) => {
    const buffer = new Uint8Array(1_000);
    await conn.read(buffer);
    await conn.write(new TextEncoder().encode("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfine"));
  });
  await using bench = await Bench.start({ list: LIST, ports: { 80: server.port, 5432: server.port } });
  const task = bench.admit("7a5c");
  const client = await bench.client();
  assertEquals(await client.tunnel("allowed.example:5432", task), 200);
  await client.send("x");
  await client.conn.closeWrite();
  await client.rest();
  await bench.connect("evil.com:443", task);
  await bench.ask(
    `GET http://allowed.example/path?token=secret HTTP/1.1\r\nHost: allowed.example\r\n${credentials(task)}\r\n\r\n`,
  );
  await bench.ask("CONNECT evil.com:443 HTTP/1.1\r\n\r\n");
  await bench.ask(`CONNECT [::1]:443 HTTP/1.1\r\n${credentials(task)}\r\n\r\n`);
  await bench.proxy.close();
  const lines = await bench.log();
  const expected = [
    /^\d+\.\d{3} +\d+ 127\.0\.0\.1 TCP_TUNNEL\/200 81 CONNECT allowed\.example:5432 7a5c HIER_DIRECT\/127\.0\.0\.1 - reason=allowed$/,
    / TCP_DENIED\/403 \d+ CONNECT evil\.com:443 7a5c HIER_NONE\/- - reason=not_listed$/,
    / TCP_MISS\/200 \d+ GET http:\/\/allowed\.example\/path 7a5c HIER_DIRECT\/127\.0\.0\.1 - reason=allowed$/,
    / TCP_DENIED\/407 \d+ CONNECT evil\.com:443 - HIER_NONE\/- - reason=credentials_missing$/,
    / TCP_DENIED\/403 \d+ CONNECT - 7a5c HIER_NONE\/- - reason=address_literal$/,
  ];
  assertEquals(lines.length, expected.length, lines.join("\n"));
  for (const [index, pattern] of expected.entries()) assertMatch(lines[index]!, pattern);
  // Neither credentials nor a URL's query.
  assert(!lines.join("\n").includes("secret") && !lines.join("\n").includes(task.password));
});

const why = await whyNotMountable("tmpfs");

Deno.test({
  name: `nothing passes unlogged: with a full disk requests are refused, and with room they are served again${why}`,
  ignore: why !== "",
  fn: () =>
    withMount("tmpfs", 1, async (directory) => {
      await using server = Server.echo();
      const log_dir = join(directory, "squid");
      await using bench = await Bench.start({ list: LIST, ports: { 5432: server.port }, log_dir });
      const task = bench.admit();
      const filler = join(directory, "filler");
      fillDisk(filler);
      // The line of the first refusal is what finds out.
      assertEquals(await bench.connect("evil.com:443", task), "403 not_listed");
      assertEquals(await bench.connect("allowed.example:5432", task), "503 log_unavailable");
      assertEquals(await bench.connect("allowed.example:5432", task), "503 log_unavailable");
      makeRoom(filler);
      assertEquals(await bench.connect("evil.com:443", task), "403 not_listed");
      assertEquals(await bench.connect("allowed.example:5432", task), "200");
      await bench.proxy.close();
      const lines = (await Deno.readTextFile(join(log_dir, "access.log"))).split("\n");
      assertEquals(lines.map((line) => line.split("reason=")[1]), ["not_listed", "allowed", undefined]);
    }),
});
