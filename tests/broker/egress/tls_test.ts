import { assert, assertEquals, assertRejects } from "@std/assert";
import { BROKEN_HELLOS, NO_HELLOS, OTHER_SERVER_NAMES } from "../../attacks/inputs/egress.ts";
import { Bench, connectHead, latin1, RawClient, Server, text } from "./_harness.ts";
import { type Certificate, makeCertificate } from "./_certificate.ts";

const LIST = { "allowed.example": [443, 8443, 5432], "other.example": [443] };

/** A TLS server that answers every connection with one line. */
function tlsServer({ cert, key }: Certificate): { port: number } & AsyncDisposable {
  const listener = Deno.listenTls({ hostname: "127.0.0.1", port: 0, cert, key });
  const running = (async () => {
    try {
      for await (const conn of listener) {
        await (async () => {
          await conn.handshake();
          await conn.read(new Uint8Array(100));
          await conn.write(latin1("hello from the host\n"));
        })().catch(() => {}).finally(() => conn.close());
      }
    } catch {
      // Closed.
    }
  })();
  return {
    port: listener.addr.port,
    [Symbol.asyncDispose]: () => {
      listener.close();
      return running;
    },
  };
}

/** The first bytes of a real TLS client that names `server_name`, or nothing. */
async function realHello(server_name: string | undefined): Promise<Uint8Array> {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const args = ["s_client", "-connect", `127.0.0.1:${listener.addr.port}`];
  args.push(...server_name === undefined ? ["-noservername"] : ["-servername", server_name]);
  const client = new Deno.Command("openssl", { args, stdin: "null", stdout: "null", stderr: "null" }).spawn();
  const conn = await listener.accept();
  const buffer = new Uint8Array(16 << 10);
  let length = 0;
  while (length < 5 || length < 5 + (buffer[3]! << 8 | buffer[4]!)) {
    length += await conn.read(buffer.subarray(length)) ?? 0;
  }
  conn.close();
  listener.close();
  await client.status;
  return buffer.slice(0, length);
}

/** What a server got on each connection. */
function recorder(): Server & { got: string[] } {
  const got: string[] = [];
  const server = Server.start(async (conn) => {
    const index = got.push("") - 1;
    const buffer = new Uint8Array(64 << 10);
    for (let count = await conn.read(buffer); count !== null; count = await conn.read(buffer)) {
      got[index] += text(buffer.subarray(0, count));
    }
  });
  return Object.assign(server, { got });
}

Deno.test("TLS goes through to the host that CONNECT named", async () => {
  const certificate = await makeCertificate("allowed.example");
  await using server = tlsServer(certificate);
  await using bench = await Bench.start({ list: LIST, ports: { 443: server.port, 8443: server.port } });
  const task = bench.admit();
  for (const target of ["allowed.example:443", "ALLOWED.example.:443", "allowed.example:8443"]) {
    const client = await RawClient.connect(bench.port);
    assertEquals(await client.tunnel(target, task), 200);
    const tls = await Deno.startTls(client.conn, { hostname: "allowed.example", caCerts: [certificate.cert] });
    await tls.write(latin1("hello\n"));
    const buffer = new Uint8Array(100);
    const count = await tls.read(buffer);
    assertEquals(text(buffer.subarray(0, count!)), "hello from the host\n");
    tls.close();
  }
});

Deno.test("a server name that differs is refused with a TLS alert; no byte of it reaches the host", async () => {
  await using server = recorder();
  await using bench = await Bench.start({ list: LIST, ports: { 443: server.port, 8443: server.port } });
  const task = bench.admit();
  for (const port of [443, 8443]) {
    for (const name of OTHER_SERVER_NAMES) {
      await using client = await bench.client();
      assertEquals(await client.tunnel(`allowed.example:${port}`, task), 200);
      await client.send(await realHello(name));
      const rest = await client.rest();
      assertEquals([port, name, rest], [port, name, port === 443 ? "\x15\x03\x03\0\x02\x02\x31" : ""]);
      const { reason, detail } = bench.decisions.at(-1)!;
      assertEquals([reason, detail], ["sni_mismatch", name]);
    }
  }
  assertEquals(server.got.join(""), "");
});

Deno.test("a real client learns that access was denied when it names another server", async () => {
  const certificate = await makeCertificate("other.example");
  await using server = tlsServer(certificate);
  await using bench = await Bench.start({ list: LIST, ports: { 443: server.port } });
  const client = await RawClient.connect(bench.port);
  assertEquals(await client.tunnel("allowed.example:443", bench.admit()), 200);
  const tls = await Deno.startTls(client.conn, { hostname: "other.example", caCerts: [certificate.cert] });
  const error = await assertRejects(() => tls.handshake(), Error);
  assert(/AccessDenied/i.test(error.message), error.message);
  tls.close();
});

Deno.test("a hello without a server name is refused", async () => {
  await using server = recorder();
  await using bench = await Bench.start({ list: LIST, ports: { 443: server.port } });
  await using client = await bench.client();
  assertEquals(await client.tunnel("allowed.example:443", bench.admit()), 200);
  await client.send(await realHello(undefined));
  await client.rest();
  assertEquals(bench.decisions.at(-1)!.reason, "sni_absent");
  assertEquals(server.got, [""]);
});

Deno.test("a hello in pieces, or together with the CONNECT, is checked and passed on whole", async () => {
  await using server = recorder();
  await using bench = await Bench.start({ list: LIST, ports: { 443: server.port } });
  const task = bench.admit();
  const hello = await realHello("allowed.example");
  const bad = await realHello("other.example");

  const pieces = await bench.client();
  assertEquals(await pieces.tunnel("allowed.example:443", task), 200);
  for (const byte of hello) await pieces.send(Uint8Array.of(byte));
  await pieces.send("more");
  pieces.conn.close();

  const together = await bench.client();
  await together.send(Uint8Array.from([...latin1(connectHead("allowed.example:443", task)), ...hello]));
  assertEquals((await together.response()).status, 200);
  await together.conn.closeWrite();
  await together.rest();

  for (const early of ["pieces", "together", "together, and then the end"]) {
    const client = await bench.client();
    if (early !== "pieces") {
      await client.send(Uint8Array.from([...latin1(connectHead("allowed.example:443", task)), ...bad]));
      if (early !== "together") await client.conn.closeWrite();
      assertEquals((await client.response()).status, 200);
    } else {
      assertEquals(await client.tunnel("allowed.example:443", task), 200);
      for (const byte of bad) await client.send(Uint8Array.of(byte)).catch(() => {});
    }
    await client.rest();
    assertEquals(bench.decisions.at(-1)!.reason, "sni_mismatch");
  }
  await bench.proxy.close();
  assertEquals(server.got, [text(hello) + "more", text(hello), "", "", ""]);
});

Deno.test("what is not TLS does not pass on 443", async () => {
  await using server = recorder();
  await using bench = await Bench.start({ list: LIST, ports: { 443: server.port } });
  const task = bench.admit();
  for (const first of NO_HELLOS) {
    await using client = await bench.client();
    assertEquals(await client.tunnel("allowed.example:443", task), 200);
    await client.send(first);
    assertEquals(await client.rest(), "");
    assertEquals([first, bench.decisions.at(-1)!.reason], [first, "tls_expected"]);
  }
  assertEquals(server.got.join(""), "");
});

Deno.test("a malformed or endless hello is refused", async () => {
  await using server = recorder();
  await using bench = await Bench.start({ list: LIST, ports: { 443: server.port } });
  const task = bench.admit();
  for (const first of BROKEN_HELLOS) {
    await using client = await bench.client();
    assertEquals(await client.tunnel("allowed.example:443", task), 200);
    await client.send(first).catch(() => {});
    await client.rest();
    assertEquals(bench.decisions.at(-1)!.reason, "hello_malformed");
  }
  assertEquals(server.got.join(""), "");
});

Deno.test("on another listed port the host may speak first, and what is not TLS passes", async () => {
  await using server = Server.start(async (conn) => {
    await conn.write(latin1("220 ready\r\n"));
    const buffer = new Uint8Array(100);
    const count = await conn.read(buffer);
    await conn.write(latin1(`got ${text(buffer.subarray(0, count ?? 0))}`));
  });
  await using bench = await Bench.start({ list: LIST, ports: { 5432: server.port } });
  await using client = await bench.client();
  assertEquals(await client.tunnel("allowed.example:5432", bench.admit()), 200);
  assertEquals(await client.until("\r\n"), "220 ready\r\n");
  await client.send("HELO\r\n");
  assertEquals(await client.rest(), "got HELO\r\n");
});
