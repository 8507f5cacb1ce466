import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { TaskdError } from "../../lib/errors.ts";
import { apiKey, keysPath, metricsToken, readKeys, writeKeys } from "./keys.ts";

async function withHome(test: (home: string) => Promise<void>): Promise<void> {
  const home = await Deno.makeTempDir();
  try {
    await Deno.mkdir(`${home}/.taskd`, { mode: 0o700 });
    await test(home);
  } finally {
    await Deno.remove(home, { recursive: true });
  }
}

const sources = (env: Record<string, string>, file: Record<string, string> = {}, compat_variable = "") => ({
  env: (name: string) => env[name],
  file: new Map(Object.entries(file)),
  compat_variable,
});

// conformance: b1.vendor_keys b1.keys_file
Deno.test("a lane's own variable precedes its fallback, and the environment the file", () => {
  const lanes = [
    ["vendor_a", "VENDORA_API_KEY", "ANTHROPIC_API_KEY"],
    ["vendor_b", "VENDORB_API_KEY", "OPENAI_API_KEY"],
    ["vendor_c", "VENDORC_API_KEY", "GEMINI_API_KEY"],
  ] as const;
  for (const [lane, own, other] of lanes) {
    const table: [Record<string, string>, Record<string, string>, string | undefined][] = [
      [{}, {}, undefined],
      [{ [own]: "1", [other]: "2" }, { [own]: "3", [other]: "4" }, `env:${own}`],
      [{ [other]: "2" }, { [own]: "3", [other]: "4" }, `api-keys.env:${own}`],
      [{ [other]: "2" }, { [other]: "4" }, `env:${other}`],
      [{}, { [other]: "4" }, `api-keys.env:${other}`],
      [{ [own]: "", [other]: " " }, { [own]: "3" }, `api-keys.env:${own}`],
    ];
    for (const [env, file, source] of table) assertEquals(apiKey(lane, sources(env, file))?.source, source);
  }
});

// conformance: b2.compat.api_key_env
Deno.test("the compat key comes from the variable of api_key_env, by default from none", () => {
  const env = { MY_KEY: "k", OPENAI_API_KEY: "other" };
  assertEquals(apiKey("compat", sources(env)), undefined);
  assertEquals(apiKey("compat", sources(env, {}, "MY_KEY")), { secret: "k", source: "env:MY_KEY" });
  assertEquals(apiKey("compat", sources({}, { MY_KEY: "f" }, "MY_KEY")), {
    secret: "f",
    source: "api-keys.env:MY_KEY",
  });
});

Deno.test("the metrics' token is in the variable that the settings name; a missing one is refused", () => {
  const at = { metrics_addr: "127.0.0.1:1", metrics_token_env: "SCRAPE" };
  const token = "0123456789abcdef";
  assertEquals(metricsToken({ ...at, metrics_token_env: "" }, sources({ SCRAPE: token })), undefined);
  assertEquals(metricsToken({ ...at, metrics_addr: "" }, sources({})), undefined);
  assertEquals(metricsToken(at, sources({ SCRAPE: token }, { SCRAPE: `${token}f` })), token);
  assertEquals(metricsToken(at, sources({}, { SCRAPE: token })), token);
  for (const env of [{}, { SCRAPE: "short-secret" }, { SCRAPE: `${token} secret` }]) {
    const error = assertThrows(() => metricsToken(at, sources(env)), TaskdError);
    assertEquals([error.code, error.message.includes("secret")], ["invalid_config", false]);
  }
});

Deno.test("a key that is not valid in a header is refused and not shown", () => {
  for (const key of ["sk-secret\r\nX: y", "sk secret", "sk-sécret", "sk-secret\0", "“sk-secret”"]) {
    const error = assertThrows(() => apiKey("vendor_a", sources({ VENDORA_API_KEY: key })), TaskdError);
    assertEquals([error.code, error.message.includes("secret")], ["invalid_config", false]);
  }
  assertEquals(apiKey("vendor_a", sources({ VENDORA_API_KEY: " sk-1\n" }))?.secret, "sk-1");
});

// conformance: b1.keys_file b8.modes
Deno.test("keys are written as 0600 and read back", () =>
  withHome(async (home) => {
    assertEquals(await readKeys(home), new Map());
    await writeKeys(home, new Map([["VENDORA_API_KEY", "sk-1$x"], ["OTHER", "2"]]));
    await writeKeys(home, new Map([["OTHER", null]]));
    assertEquals(await readKeys(home), new Map([["VENDORA_API_KEY", "sk-1$x"]]));
    assertEquals((Deno.statSync(keysPath(home)).mode ?? 0) & 0o777, 0o600);
    await assertRejects(() => writeKeys(home, new Map([["A", "no key"]])), TaskdError);
    assertEquals([...Deno.readDirSync(`${home}/.taskd`)].length, 1);
  }));

// conformance: b1.keys_file
Deno.test("a key file that others can read is refused with the chmod to run, also before a write", () =>
  withHome(async (home) => {
    await Deno.writeTextFile(keysPath(home), "VENDORA_API_KEY=sk-secret\n");
    for (const bits of [0o644, 0o640, 0o604, 0o660, 0o610]) {
      Deno.chmodSync(keysPath(home), bits);
      for (const attempt of [() => readKeys(home), () => writeKeys(home, new Map([["A", "b"]]))]) {
        const error = await assertRejects(attempt, TaskdError);
        assertEquals([error.code, error.hint], ["denied", `Run: chmod 600 ${keysPath(home)}`]);
        assert(!`${error.message}${error.stack}`.includes("sk-secret"));
      }
    }
    Deno.chmodSync(keysPath(home), 0o400);
    assertEquals((await readKeys(home)).size, 1);
  }));
