import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { join } from "@std/path/join";
import { Bench } from "./_harness.ts";
import { makeCertificate } from "./_certificate.ts";

const LIST = { "allowed.example": [80, 443] };

/** What `curl` and `git` are given: the proxy by its environment variables, as in a sandbox. */
async function run(
  program: string,
  args: string[],
  proxy: string,
): Promise<{ code: number; out: string; err: string }> {
  const env = {
    PATH: Deno.env.get("PATH")!,
    HOME: "/nonexistent",
    http_proxy: proxy,
    HTTP_PROXY: proxy,
    https_proxy: proxy,
    HTTPS_PROXY: proxy,
    GIT_TERMINAL_PROMPT: "0",
    LC_ALL: "C",
  };
  const { code, stdout, stderr } = await new Deno.Command(program, { args, env, clearEnv: true, stdin: "null" })
    .output();
  return { code, out: new TextDecoder().decode(stdout), err: new TextDecoder().decode(stderr) };
}

const isMissing = async (program: string) =>
  !await new Deno.Command(program, { args: ["--version"], stdout: "null" }).output().then(
    (r) => r.success,
    () => false,
  );
const without = async (program: string) => await isMissing(program) ? ` (ignored: ${program} is not installed)` : "";
const [no_curl, no_git] = [await without("curl"), await without("git")];

Deno.test({
  name: `curl gets an allowed host over TLS and plain HTTP, and learns why it does not get another${no_curl}`,
  ignore: no_curl !== "",
  fn: async () => {
    const directory = await Deno.makeTempDir();
    const { cert, key } = await makeCertificate("allowed.example");
    const ca = join(directory, "ca.pem");
    await Deno.writeTextFile(ca, cert);
    const answer = (request: Request) => new Response(`${request.method} ${request.url}\n${"x".repeat(100_000)}\n`);
    const quiet = { hostname: "127.0.0.1", port: 0, onListen: () => {} };
    const tls = Deno.serve({ ...quiet, cert, key }, answer);
    const plain = Deno.serve(quiet, answer);
    try {
      await using bench = await Bench.start({ list: LIST, ports: { 443: tls.addr.port, 80: plain.addr.port } });
      const { url } = bench.admit();
      const curl = (...args: string[]) => run("curl", ["-sS", "--cacert", ca, ...args], url);

      for (const scheme of ["https", "http"]) {
        const { code, out, err } = await curl(`${scheme}://allowed.example/a?b`);
        assertEquals([code, err, out.split("\n")[0]], [0, "", `GET ${scheme}://allowed.example/a?b`]);
        assertEquals(out.length > 100_000, true);
      }
      // Twice on one connection, and a client that first asks what kind of proof is required.
      const twice = await curl("http://allowed.example/1", "http://allowed.example/2");
      assertEquals(twice.out.match(/GET/g)?.length, 2);
      const asking = await curl("--proxy-anyauth", "https://allowed.example/");
      assertEquals([asking.code, asking.err], [0, ""]);
      const upload = await curl("-T", ca, "-H", "Expect: 100-continue", "http://allowed.example/up");
      assertStringIncludes(upload.out, "PUT http://allowed.example/up");

      const denied = await curl("https://evil.example/");
      assertEquals(denied.code === 0, false);
      assertMatch(denied.err, /403/);
      const verbose = await curl("-v", "https://evil.example/");
      assertStringIncludes(verbose.err, "403 Host not in egress.yaml");
      const body = await curl("http://evil.example/");
      assertEquals(JSON.parse(body.out).code, "not_listed");
      const address = await curl("http://169.254.169.254/latest/meta-data/");
      assertEquals(JSON.parse(address.out).code, "address_literal");
    } finally {
      await Promise.all([tls.shutdown(), plain.shutdown()]);
      await Deno.remove(directory, { recursive: true });
    }
  },
});

Deno.test({
  name: `git learns that the proxy refused${no_git}`,
  ignore: no_git !== "",
  fn: async () => {
    await using bench = await Bench.start({ list: LIST });
    const { err } = await run("git", ["ls-remote", "https://evil.example/repo.git"], bench.admit().url);
    assertMatch(err, /403/);
    assertEquals(bench.decisions.at(-1)?.reason, "not_listed");
  },
});
