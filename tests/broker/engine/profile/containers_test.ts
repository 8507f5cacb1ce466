import { assertEquals, assertMatch, assertNotEquals, assertStringIncludes } from "@std/assert";
import { longTest } from "../../../support/long.ts";
import { podmanTest } from "../../../support/podman.ts";
import { type ContainerWorld, startContainers } from "./_containers.ts";
import { REGISTRY_HOST } from "./_registries.ts";
import { sh } from "./_setup.ts";

const promises: { name: string; body: (world: ContainerWorld) => Promise<void> }[] = [];

function promise(name: string, body: (world: ContainerWorld) => Promise<void>): void {
  promises.push({ name, body });
}

const NPM_CI = ["node", ".npm/bin/npm-cli.js", "ci", `--registry=http://${REGISTRY_HOST}/`, "--no-audit", "--no-fund"];
const NPM_READY = ["node", "-e", "if (require('tiny-package') !== 42) process.exit(1)"];

/** A wheel of pip, which Python can run from: Debian keeps it in a package of its own, others beside ensurepip. */
async function pipWheel(): Promise<Uint8Array<ArrayBuffer>> {
  const find = `
import glob, os
places = ["/usr/share/python-wheels"]
try:
    import ensurepip
    places.append(os.path.join(os.path.dirname(ensurepip.__file__), "_bundled"))
except ImportError:
    pass
print(next(wheel for place in places for wheel in glob.glob(place + "/pip-*.whl")))`;
  const { success, stdout } = await new Deno.Command("python3", { args: ["-c", find] }).output();
  if (!success) throw new Error("No Python here has pip's wheel: install python3-pip-whl");
  return await Deno.readFile(new TextDecoder().decode(stdout).trim());
}

// conformance: b2.cache.deps
promise("npm fills the cache in one task, and the next one installs without asking the registry", async (world) => {
  const profile = { setup: [NPM_CI], readiness: [NPM_READY] };
  const first = await world.setUp(world.registry.npmProject, profile);
  assertEquals([first.result.passed, first.result.evidence.cache.participation], [true, "miss"], first.log);
  assertStringIncludes(world.registry.asked.join(" "), "tiny-package-1.0.0.tgz");
  await first.result.release();
  world.registry.asked.length = 0;
  const second = await world.setUp(world.registry.npmProject, profile);
  assertEquals([second.result.passed, second.result.evidence.cache.participation], [true, "hit"], second.log);
  assertEquals(world.registry.asked, []);
  await second.result.release();
});

promise("pip fills the cache in one task, and the next one does not download again", async (world) => {
  const wheel = await pipWheel();
  const install = sh(
    `python3 pip.whl/pip install --target lib --index-url http://${REGISTRY_HOST}/simple --trusted-host ${REGISTRY_HOST} --require-hashes -r requirements.txt`,
  );
  const ready = sh("PYTHONPATH=lib python3 -c 'import tiny_package; assert tiny_package.answer == 42'");
  const files = { "requirements.txt": world.registry.requirements, "pip.whl": wheel };
  const runs: string[] = [];
  for (const participation of ["miss", "hit"]) {
    const { result, log } = await world.setUp(files, {
      setup: [install],
      readiness: [ready],
    });
    assertEquals([result.passed, result.evidence.cache.participation], [true, participation], log);
    await result.release();
    runs.push(world.registry.asked.splice(0).filter((path) => path.startsWith("/files/")).join());
  }
  assertEquals(runs, ["/files/tiny_package-1.0.0-py3-none-any.whl", ""]);
});

promise("attack: the agent reads the cache and can change nothing in it", async (world) => {
  const made = await world.setUp(world.registry.npmProject, { setup: [sh("echo good > /deps/file")] });
  const { code, output } = await world.agent(
    made,
    sh(
      "cat /deps/file; echo evil > /deps/file; rm -rf /deps/file; mount -o remount,rw /deps; touch /deps/more; cat /deps/file",
    ),
  );
  assertEquals(code, 0);
  assertEquals(output.split("\n").filter((line) => line === "good"), ["good", "good"], output);
  assertStringIncludes(output, "Read-only file system");
  await made.result.release();
  const next = await world.setUp(world.registry.npmProject, { setup: [sh("echo good > /deps/file")] });
  assertEquals([...Deno.readDirSync(next.result.mounts[0]!.source)].map(({ name }) => name), ["file"]);
  await next.result.release();
});

promise("readiness commands see the cache read-only", async (world) => {
  const { result, log } = await world.setUp(world.registry.npmProject, {
    setup: [sh("echo x > /deps/file")],
    readiness: [sh("cat /deps/file && ! touch /deps/more")],
  });
  assertEquals(result.passed, true, log);
  await result.release();
});

promise("a setup that fails after it has written leaves no entry", async (world) => {
  const before = world.cache.entries();
  const { result } = await world.setUp(world.registry.npmProject, { setup: [sh("echo half > /deps/file; exit 1")] });
  assertEquals([result.passed, result.mounts, result.evidence.cache.participation], [false, [], "miss"]);
  await result.release();
  assertEquals(world.cache.entries(), before);
});

promise("a setup command reaches the proxy, and neither the gateway nor anything else", async (world) => {
  using gateway = Deno.listen({ hostname: world.gateway_ip, port: 8088 });
  const accepted: unknown[] = [];
  const accepting = gateway.accept().then((conn) => (accepted.push(conn), conn.close()), () => {});
  const { result, log } = await world.setUp({}, {
    setup: [
      sh(`curl -fsS http://${REGISTRY_HOST}/tiny-package`),
      sh(`! curl -fsS -m 2 --noproxy '*' http://${world.gateway_ip}:8088/`),
      sh("! curl -fsS -m 2 --noproxy '*' http://1.1.1.1/"),
      sh(`! curl -fsS http://not-listed.example.com/`),
    ],
    cache: false,
  });
  assertEquals(result.passed, true, log);
  assertEquals(result.evidence.cache, { participation: "disabled" });
  gateway.close();
  await accepting;
  assertEquals(accepted, []);
});

promise("attack: a child that outlives its command in the background is gone before the next one", async (world) => {
  const { result, log } = await world.setUp({}, {
    setup: [
      sh(
        "setsid sh -c 'while :; do date +%N > /workspace/beat; sleep 0.05; done' >/dev/null 2>&1 & sleep 0.3; cat /workspace/beat",
      ),
      sh("cat /workspace/beat > /workspace/then; sleep 0.5; cmp /workspace/beat /workspace/then"),
    ],
  });
  assertEquals(result.passed, true, log);
  await result.release();
});

promise("each command begins with nothing of the one before but the work tree and the cache", async (world) => {
  const { result, log } = await world.setUp(world.registry.npmProject, {
    setup: [
      sh("echo x > /tmp/file; echo x > $HOME/.npmrc; echo x > /workspace/file; echo x > /deps/file; ! touch /etc/file"),
      sh("! test -e /tmp/file && ! test -e $HOME/.npmrc && test -e /workspace/file && test -e /deps/file"),
    ],
  });
  assertEquals(result.passed, true, log);
  await result.release();
});

promise("a program that is not in the image has failed, and a command over its time has timed out", async (world) => {
  const absent = await world.setUp({}, { setup: [["no-such-program"]] });
  assertEquals(absent.result.evidence.commands[0]!.status, "failed");
  assertNotEquals(absent.result.evidence.commands[0]!.exit_code, 0);
  const slow = await world.setUp({}, { setup: [["sleep", "600"]], timeout: 1_000 });
  assertEquals(slow.result.evidence.commands[0]!.status, "timed_out");
  assertMatch(slow.result.reason!, /^setup command sleep 600 timed out after /);
});

podmanTest("a setup phase in containers", async (test) => {
  await using world = await startContainers();
  for (const { name, body } of promises) await test.step(name, () => body(world));
}, longTest);
