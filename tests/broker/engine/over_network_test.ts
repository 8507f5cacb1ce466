import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { reachRepo, type RepoAddressDeps } from "../../../broker/engine/repo_address.ts";
import { Dialer } from "../../../broker/egress/dialer.ts";
import type { GitSetting } from "../../../broker/git/reached_url.ts";
import { systemClock } from "../../../lib/clock.ts";
import { TaskdError } from "../../../lib/errors.ts";
import { VirtualClock } from "../../support/clock.ts";
import { writeProgram } from "../../support/programs.ts";
import { BrokerBench } from "./bench.ts";

const PUBLIC = "93.184.215.14";

function deps(
  addresses: Record<string, string[]>,
  env: Record<string, string> = {},
  settings: readonly GitSetting[] = [],
): RepoAddressDeps {
  const resolve = (host: string) => Promise.resolve(addresses[host] ?? []);
  const dialer = new Dialer({ clock: new VirtualClock(), resolve, own_addresses: () => ["203.0.114.9"] });
  return { dialer, credentials: { env, settings }, clock: systemClock };
}

const over = (repo: string) => ({ repo, over_network: true }) as const;

Deno.test("a repository over the network has a public name, and git is bound to its addresses", async () => {
  const found = deps({ "git.example.com": [PUBLIC, "2606:2800:21f:cb07:6820:80da:af6b:8b2c"] });
  const reached = async (repo: string) => (await reachRepo(found, over(repo), "fetch")).credentials?.config;
  assertEquals(await reached("https://git.example.com/o/r"), [
    `http.curloptResolve=git.example.com:443:${PUBLIC},[2606:2800:21f:cb07:6820:80da:af6b:8b2c]`,
  ]);
  assertEquals((await reached("https://git.example.com:8443/o/r"))?.[0]?.split(":").slice(0, 2), [
    "http.curloptResolve=git.example.com",
    "8443",
  ]);
  assertEquals(await reached("git@git.example.com:o/r"), []);
});

/** The end of the command by which git starts ssh: what binds it. */
async function sshFor(repo: string, { addresses = [PUBLIC], config = "", own = "ssh" } = {}): Promise<string> {
  const folder = await Deno.makeTempDir();
  try {
    await Deno.writeTextFile(`${folder}/config`, config);
    const command = own === "ssh" ? `/usr/bin/ssh -F ${folder}/config` : own;
    const found = deps({ "git.example.com": addresses }, {}, [["core.sshcommand", command]]);
    const { credentials } = await reachRepo(found, over(repo), "fetch");
    return credentials.env.GIT_SSH_COMMAND!.replace(/^.*-oPermitLocalCommand=no ?/, "");
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

const NO_SSH = await Deno.stat("/usr/bin/ssh").then(() => false, () => true);

Deno.test({
  name: `ssh is bound to the checked address, and knows the host's key by its name${NO_SSH ? ": ignored, no ssh" : ""}`,
  ignore: NO_SSH,
  fn: async () => {
    const [scp, url] = ["git@git.example.com:o/r", "ssh://git@git.example.com:2222/o/r"];
    const bound = `-oHostName=${PUBLIC} -oHostKeyAlias=git.example.com`;
    assertEquals(await sshFor(scp), bound);
    assertEquals(await sshFor(url), `-oHostName=${PUBLIC} '-oHostKeyAlias=[git.example.com]:2222'`);
    const six = "2606:2800:21f:cb07:6820:80da:af6b:8b2c";
    assertEquals(await sshFor(scp, { addresses: [six, PUBLIC] }), bound);
    assertEquals(await sshFor(scp, { addresses: [six] }), bound.replace(PUBLIC, six));
    const configured = "Host git.example.com\n  Port 2222\n  IdentityFile ~/.ssh/other\n";
    assertEquals(
      await sshFor(scp, { config: configured }),
      bound.replace(/-oHostKeyAlias=.*/, "'-oHostKeyAlias=[git.example.com]:2222'"),
    );
    const alias = "Host git.example.com\n  HostKeyAlias known\n";
    assertEquals(await sshFor(scp, { config: alias }), bound.replace(/-oHostKeyAlias=.*/, "-oHostKeyAlias=known"));
    // What the operator has arranged counts.
    for (const more of ["HostName ssh.example.net", "ProxyCommand /bin/nc %h %p", "ProxyJump jump.example.net"]) {
      assertEquals(await sshFor(scp, { config: `Host git.example.com\n  ${more}\n` }), "", more);
    }
    assertEquals(await sshFor(scp, { own: "/opt/corporate-ssh" }), "/opt/corporate-ssh");
  },
});

Deno.test("repositories of the host and its networks are refused over the network alone", async () => {
  const found = deps({
    "inside.example.com": ["10.0.0.7"],
    "metadata.example.com": ["169.254.169.254"],
    "mixed.example.com": [PUBLIC, "127.0.0.1"],
    "me.example.com": ["203.0.114.9"],
    "six.example.com": ["fe80::1"],
    "mapped.example.com": ["::ffff:127.0.0.1"],
  });
  const repos = [
    "/srv/git/shop.git",
    "file:///srv/git/shop.git",
    "http://127.0.0.1:3000/o/r",
    "http://localhost/o/r",
    "https://127.0.0.1/o/r",
    "https://127.1/o/r",
    "https://0x7f000001/o/r",
    "https://2130706433/o/r",
    "https://[::1]/o/r",
    "https://localhost/o/r",
    "https://printer.local/o/r",
    "https://inside.example.com/o/r",
    "https://metadata.example.com/o/r",
    "https://mixed.example.com/o/r",
    "https://me.example.com/o/r",
    "https://six.example.com/o/r",
    "https://mapped.example.com/o/r",
    "ssh://git@inside.example.com/o/r",
    "git@localhost:o/r",
  ];
  for (const repo of repos) {
    const error = await assertRejects(() => reachRepo(found, over(repo), "fetch"), TaskdError, undefined, repo);
    assertEquals(error.code, "invalid_request", repo);
    await reachRepo(found, { repo }, "fetch");
  }
});

Deno.test("a name that is not found is refused over the network, unless a proxy finds it", async () => {
  const error = await assertRejects(() => reachRepo(deps({}), over("https://git.example.com/o/r"), "push"), TaskdError);
  assertEquals(error.code, "unavailable");
  const proxied = deps({}, { https_proxy: "http://proxy.example.com:3128" });
  assertEquals((await reachRepo(proxied, over("https://git.example.com/o/r"), "push")).credentials?.config, []);
  await assertRejects(() => reachRepo(proxied, over("ssh://git.example.com/o/r"), "push"), TaskdError);
});

Deno.test("broker.addr refuses a repository of this machine for tasks, the queue and retries", async () => {
  await using bench = await BrokerBench.start({ env: { BROKER_ADDR: "127.0.0.1:0" } });
  const ask = async (path: string, body?: object) => {
    const response = await fetch(`http://${bench.broker.addr}${path}`, {
      method: "POST",
      ...(body && { body: JSON.stringify(body), headers: { "content-type": "application/json" } }),
    });
    return { status: response.status, ...await response.json() };
  };
  const order = { repo: bench.git.origin, instruction: "Say hello" };
  for (const path of ["/tasks", "/queue"]) {
    const { status, code, detail } = await ask(path, order);
    assertEquals([status, code], [400, "invalid_request"]);
    assertStringIncludes(detail, "over the network");
  }
  // Over the socket the same is taken, and a retry over the network is refused.
  const { id } = await bench.submit();
  await bench.reaches(id, "awaiting_approval");
  assertEquals((await ask(`/tasks/${id}/retry`)).code, "invalid_request");
  assertEquals(bench.engine.queue(), []);
});

Deno.test("what a git server answers reaches no one who submits over the network, but the log", async () => {
  await using bench = await BrokerBench.prepare();
  const missing = `${bench.root}/nothing.git`;
  const words = "there is no repository";
  Deno.writeTextFileSync(
    `${bench.home}/.gitconfig`,
    `[url "file://${missing}"]\n\tinsteadOf = https://git.example.com/o/r\n`,
  );
  await bench.serve();
  const order = { repo: "https://git.example.com/o/r", instruction: "Say hello" };
  const open = await bench.reaches((await bench.engine.submit(order)).id);
  assertStringIncludes(open.reason!, words);
  const closed = await bench.reaches((await bench.engine.submit(order, { over_network: true })).id);
  assertEquals([closed.outcome, closed.reason!.includes(words)], [open.outcome, false]);
  assertStringIncludes(closed.reason!, "git.example.com/o/r");
  assertEquals(bench.lines.filter((line) => line.includes("code_host_failed") && line.includes(words)).length, 1);
});

Deno.test("what a git server says to an approved push is in the log alone, too", async () => {
  await using bench = await BrokerBench.prepare({ runs_hooks: true });
  const { origin } = bench.git;
  const hook = `${origin}/hooks/pre-receive`;
  await writeProgram(hook, "#!/bin/sh\necho the-words-of-a-server >&2\nexit 1\n");
  Deno.writeTextFileSync(
    `${bench.home}/.gitconfig`,
    `[url "file://${origin}"]\n\tinsteadOf = https://git.example.com/o/r\n`,
  );
  await bench.serve();
  const order = { repo: "https://git.example.com/o/r", instruction: "Say hello" };
  for (const submitter of [{}, { over_network: true } as const]) {
    const { id } = await bench.engine.submit(order, submitter);
    const { gate } = await bench.reaches(id, "awaiting_approval");
    await bench.engine.approve(id, { diff_sha256: gate!.diff_sha256, acknowledge: [] });
    const { reason = "" } = await bench.reaches(id, "push_failed");
    const open = !("over_network" in submitter);
    assertEquals(reason.includes("the-words-of-a-server"), open, reason);
    if (!open) assertStringIncludes(reason, "Cannot push to git.example.com/o/r: ");
  }
  const logged = bench.lines.filter((line) => line.includes("code_host_failed"));
  assertEquals(logged.map((line) => line.includes("the-words-of-a-server")), [true]);
});
