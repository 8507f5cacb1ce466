/**
 * The egress proxy's walls, tried from inside a real sandbox that has nothing else of the network.
 */

import { assertEquals, assertStringIncludes } from "@std/assert";
import { systemClock, systemRandom } from "../../../lib/clock.ts";
import { EgressProxy } from "../../../broker/egress/proxy.ts";
import { podmanTest, testRuntime } from "../../support/podman.ts";
import { attempts } from "./_container.ts";

podmanTest(
  "from a sandbox, the proxy passes allowed names alone, and resolves no denied name",
  async () => {
    await using test = await testRuntime();
    const { listen } = await test.runtime.prepare();
    const log_dir = await Deno.makeTempDir();
    const lookups: string[] = [];
    await using server = Deno.serve(
      { hostname: "127.0.0.1", port: 0, onListen() {} },
      ({ url }) =>
        url.endsWith("/redirect")
          ? new Response(null, { status: 302, headers: { location: "http://denied.example/" } })
          : new Response("allowed content"),
    );
    const proxy = EgressProxy.listen({ hostname: listen.hostname, port: listen.proxy_port }, {
      clock: systemClock,
      random: systemRandom,
      egress: { entries: [{ host: "allowed.example", ports: [80, 443] }] },
      log_dir,
      allow_addresses: ["127.0.0.1"],
      resolve: (host) => {
        lookups.push(host);
        return Promise.resolve(["127.0.0.1"]);
      },
      connect: (address, _port, signal) =>
        Deno.connect({ hostname: address, port: server.addr.port, transport: "tcp", signal }),
    });
    try {
      const [mine, ended] = ["task1", "task2"].map((task_id) => proxy.admit({ task_id, extra: { entries: [] } }));
      ended!.end();
      const got = await attempts(
        test,
        `
def curl(*arguments, **env):
    done = subprocess.run(["curl", "--silent", "--max-time", "5", *arguments, "--write-out", "\\n%{http_code} %{http_connect}"],
                          capture_output=True, text=True, env={**os.environ, **env})
    return done.stdout + " exit " + str(done.returncode)
secret, ended = ${JSON.stringify([mine!.url, ended!.url])}
attempt("allowed", lambda: curl("http://allowed.example/"))
attempt("allowed, redirected to denied", lambda: curl("--location", "http://allowed.example/redirect"))
for name in ("http://denied.example/", "http://evilallowed.example/", "http://allowed.example.denied.example/",
             "http://user@denied.example/", "http://169.254.169.254/", "http://2130706433/", "http://0x7f.1/", "http://0177.0.0.1/",
             "http://[::1]/", "http://[::ffff:127.0.0.1]/", "http://127.0.0.1:8088/", "http://allowed.example:22/",
             "http://${"a".repeat(60)}.denied.example/"):
    attempt("no: " + name, lambda name=name: curl("--noproxy", "", name))
for name in ("denied.example:443", "169.254.169.254:443", "allowed.example:22", "allowed.example:25"):
    attempt("no: tunnel to " + name, lambda name=name: curl("https://" + name))
attempt("no: another task's password", lambda: curl("http://allowed.example/", http_proxy=ended))
attempt("no: without a password", lambda: curl("http://allowed.example/", http_proxy="http://${listen.hostname}:3128"))
attempt("no: without the proxy", lambda: curl("http://allowed.example/", NO_PROXY="*", no_proxy="*"))
attempt("no: an address without the proxy", lambda: curl("http://192.0.2.1/", NO_PROXY="*", no_proxy="*"))
`,
        { env: { http_proxy: mine!.url, https_proxy: mine!.url, HTTPS_PROXY: mine!.url } },
      );
      assertStringIncludes(got.get("allowed")!, "allowed content\n200");
      assertStringIncludes(got.get("allowed, redirected to denied")!, "403");
      const refused = [...got].filter(([name]) => name.startsWith("no: "));
      assertEquals(refused.length, 21);
      assertEquals(refused.filter(([, what]) => !/\n(403 000|000 403|407 000|000 000) exit \d+$/.test(what)), []);
      assertEquals([...new Set(lookups)], ["allowed.example"]);
    } finally {
      await proxy.close();
      await Deno.remove(log_dir, { recursive: true });
    }
  },
);
