import { assert, assertEquals } from "@std/assert";
import { operatorCredentials } from "./credentials.ts";
import { parseRepo } from "./repo_url.ts";

const ENV = {
  HOME: "/home/op",
  GH_TOKEN: "one",
  GITHUB_TOKEN: "two",
  SSH_AUTH_SOCK: "/run/agent",
  https_proxy: "http://proxy:3128",
  GIT_SSH_COMMAND: "evil",
  GIT_ASKPASS: "evil",
  GIT_CONFIG_GLOBAL: "evil",
  LD_PRELOAD: "evil",
  VENDORA_API_KEY: "key",
};

Deno.test("https gets tokens and gh, ssh gets its agent, and neither gets the other's", () => {
  const sources = { env: ENV, gh_path: "/opt/it's/gh" };
  const https = operatorCredentials(parseRepo("https://git.example:8443/a/b"), sources);
  assertEquals(Object.keys(https.env).sort(), ["GH_TOKEN", "GITHUB_TOKEN", "HOME", "https_proxy"]);
  assertEquals(https.config, ["credential.https://git.example:8443.helper=!'/opt/it'\\''s/gh' auth git-credential"]);
  assertEquals(https.secrets, ["one", "two"]);
  const ssh = operatorCredentials(parseRepo("git@git.example:a/b"), sources);
  assertEquals(Object.keys(ssh.env).sort(), ["GIT_SSH_COMMAND", "HOME", ...[
    "SSH_ASKPASS",
    "SSH_ASKPASS_REQUIRE",
    "SSH_AUTH_SOCK",
  ], "https_proxy"]);
  assert(ssh.env.GIT_SSH_COMMAND!.includes("BatchMode=yes"));
  assertEquals(ssh.config, []);
});

Deno.test("a trust store of the operator's goes to every build of git, and only for https", () => {
  const env = { SSL_CERT_FILE: "/etc/ours.pem", GIT_SSL_CAINFO: "/elsewhere.pem" };
  const https = operatorCredentials(parseRepo("https://git.example/a/b"), { env });
  assertEquals(https.env, { SSL_CERT_FILE: "/etc/ours.pem", GIT_SSL_CAINFO: "/etc/ours.pem" });
  const ssh = operatorCredentials(parseRepo("git@git.example:a/b"), { env });
  assertEquals(ssh.env.GIT_SSL_CAINFO, undefined);
});

Deno.test("helpers of the operator's git are in the environment, for https alone", () => {
  const settings = [["credential.https://h.example.helper", "!echo password=x"]] as const;
  const https = operatorCredentials(parseRepo("https://h.example/a/b"), { env: {}, settings });
  assertEquals([https.env, https.config], [{
    GIT_CONFIG_COUNT: "2",
    GIT_CONFIG_KEY_0: "credential.helper",
    GIT_CONFIG_VALUE_0: "",
    GIT_CONFIG_KEY_1: "credential.https://h.example.helper",
    GIT_CONFIG_VALUE_1: "!echo password=x",
  }, []]);
  for (const address of ["git@h.example:a/b", "/srv/app.git"]) {
    assertEquals(operatorCredentials(parseRepo(address), { env: {}, settings }).env.GIT_CONFIG_COUNT, undefined);
  }
});

Deno.test("a local repository gets none, and https without gh no helper", () => {
  assertEquals(operatorCredentials(parseRepo("/srv/app.git"), { env: ENV }), { env: {}, config: [], secrets: [] });
  assertEquals(operatorCredentials(parseRepo("https://h.example/a/b"), { env: {} }), {
    env: {},
    config: [],
    secrets: [],
  });
});
