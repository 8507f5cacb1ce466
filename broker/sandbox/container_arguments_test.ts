import type { ContainerKind } from "./runtime.ts";
import { assert, assertEquals, assertThrows } from "@std/assert";
import { TaskdError } from "../../lib/errors.ts";
import {
  anchorArgs,
  type ContainerHost,
  createArgs,
  envFile,
  hostOwner,
  networkArgs,
  subnetOf,
} from "./container_arguments.ts";

const HOST: ContainerHost = {
  kind: "podman",
  identity: { rootless: false, uid: 0, gid: 0 },
  oci_runtime: "",
  limits: { open_files: 1_024, processes: 1_000 },
  gateway_ip: "192.168.66.1",
};

function created(changes: Partial<ContainerHost> = {}): string[] {
  return createArgs({ ...HOST, ...changes }, {
    name: "taskd-a-b",
    labels: { "taskd.owner": "a" },
    work_dir: "/stage/w",
    workload: {
      kind: "command",
      image: "taskd-sandbox:latest",
      command: ["claude", "--", "--privileged"],
      env: { TOKEN: "secret" },
      mounts: [{ source: "/cache/x", target: "/deps", writable: false }],
      network: "taskd-egress",
      max_pids: 64,
    },
    memory_bytes: 1 << 30,
    backstop_s: 60,
  });
}

Deno.test("a task's own words come after the image, where no option can be", () => {
  for (const kind of ["podman", "docker", "container"] satisfies ContainerKind[]) {
    const args = created({ kind });
    const image = args.indexOf("taskd-sandbox:latest");
    assert(args.indexOf("--privileged") > image, kind);
    assertEquals(args.slice(image + 1, image + 5), ["192.168.66.1", "8088,3128", "1000", "1000"]);
    assert(args.slice(1, image).every((arg) => arg.startsWith("--")), kind);
    assert(!args.join(" ").includes("secret"), kind);
  }
});

Deno.test("podman and docker drop every privilege except what the entrypoint drops itself", () => {
  for (const kind of ["podman", "docker"] satisfies ContainerKind[]) {
    const args = created({ kind });
    for (
      const arg of [
        "--read-only",
        "--cap-drop=ALL",
        "--security-opt=no-new-privileges",
        "--pids-limit=64",
        "--memory=1073741824",
        "--memory-swap=1073741824",
        "--pull=never",
        "--network=taskd-egress",
        "--env-file=/dev/stdin",
        "--ulimit=nofile=1024:1024",
        "--mount=type=bind,source=/stage/w,target=/workspace",
        "--mount=type=bind,source=/cache/x,target=/deps,readonly",
      ]
    ) assert(args.includes(arg), `${kind} ${arg}`);
    assertEquals(args.filter((arg) => arg.startsWith("--cap-add")), [
      "--cap-add=NET_ADMIN",
      "--cap-add=SETPCAP",
      "--cap-add=SETUID",
      "--cap-add=SETGID",
    ]);
    assertEquals(
      anchorArgs({ ...HOST, kind }, { name: "n", labels: {}, image: "i", network: "w" })
        .filter((arg) => arg.startsWith("--cap-add")),
      [],
    );
  }
});

Deno.test("an OCI runtime is named only where one is set", () => {
  assert(created({ oci_runtime: "runsc" }).includes("--runtime=runsc"));
  assert(!created().some((arg) => arg.startsWith("--runtime")));
});

Deno.test("a sandbox's user has no rights on the host, or is the broker's own", () => {
  const user = { rootless: false, uid: 501, gid: 20 };
  assertEquals(hostOwner({ kind: "podman", identity: HOST.identity }), 1_900_001_000);
  assertEquals(hostOwner({ kind: "docker", identity: HOST.identity }), 1_000);
  assertEquals(hostOwner({ kind: "podman", identity: { ...user, rootless: true } }), undefined);
  assert(created({ identity: { ...user, rootless: true } }).includes("--userns=keep-id:uid=1000,gid=1000"));
  assert(created().includes("--uidmap=0:1900000000:65536"));
  const args = created({ kind: "docker", identity: user });
  assertEquals(args.slice(args.indexOf("8088,3128") + 1).slice(0, 2), ["501", "20"]);
});

// conformance: b2.effect.network b2.effect.gateway_ip
Deno.test("the command lines of networks, as recorded", () => {
  const network = { name: "taskd-egress", labels: { "taskd.owner": "a" } };
  const line = (kind: ContainerKind, gateway_ip = "192.168.66.1") =>
    networkArgs({ kind, gateway_ip }, network).join(" ");
  const start = "network create --internal --label=taskd.owner=a";
  assertEquals(
    line("podman"),
    `${start} --disable-dns --gateway=192.168.66.1 --subnet=192.168.66.0/24 taskd-egress`,
  );
  assertEquals(line("docker"), `${start} --gateway=192.168.66.1 --subnet=192.168.66.0/24 taskd-egress`);
  assertEquals(line("container"), `${start} --subnet=192.168.66.0/24 taskd-egress`);
  assertEquals(
    line("podman", "fd00:66::1"),
    `${start} --disable-dns --ipv6 --gateway=fd00:66::1 --subnet=fd00:66::/64 taskd-egress`,
  );
  assertEquals(subnetOf("10.0.7.254"), "10.0.7.0/24");
});

Deno.test("an environment that is not lines of NAME=value, or a path of several fields, is refused", () => {
  assertEquals(envFile({ A: "b=c #d", E: "" }), "A=b=c #d\nE=\n");
  for (const env of [{ A: "x\nB=y" }, { "A B": "x" }, { A: "x\0" }, { "": "x" }]) {
    assertThrows(() => envFile(env as Record<string, string>), TaskdError, "not one line");
  }
  for (const work_dir of ["relative", "/a,readonly", '/a"b']) {
    assertThrows(
      () =>
        createArgs(HOST, {
          name: "n",
          labels: {},
          work_dir,
          workload: { kind: "command", image: "i", command: [], env: {}, mounts: [], network: "n", max_pids: 1 },
          memory_bytes: 1,
          backstop_s: 1,
        }),
      TaskdError,
      "Cannot mount",
    );
  }
});
