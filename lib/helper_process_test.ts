import { assert, assertEquals } from "@std/assert";
import { type Helper, helperArgs, helperPrefix } from "./helper_process.ts";

const HELPER: Helper = {
  name: "agent",
  module: "file:///opt/taskd/broker/agent/main.ts",
  folders: [".", "../databases"],
  net: "127.0.0.1:8088",
  heap_mib: 256,
  marker: "--mark=1",
};

Deno.test("helperArgs() allows the folders and the one address, and nothing of the host", () => {
  const args = helperArgs(HELPER, false);
  assertEquals(args.filter((arg) => arg.startsWith("--allow-")), [
    "--allow-read=.,../databases",
    "--allow-write=.,../databases",
    "--allow-net=127.0.0.1:8088",
  ]);
  for (const kind of ["env", "run", "sys", "ffi", "import"]) assert(args.includes(`--deny-${kind}`), kind);
  const { net: _, ...offline } = HELPER;
  assert(helperArgs(offline, false).includes("--deny-net"));
});

Deno.test("a helper without folders has no file, and not all of them", () => {
  const args = helperArgs({ ...HELPER, folders: [] }, false);
  assertEquals(args.filter((arg) => /read|write/.test(arg)), ["--deny-read", "--deny-write"]);
  assertEquals(helperArgs({ ...HELPER, folders: [] }, true).filter((arg) => /read|write/.test(arg)), []);
});

Deno.test("a helper of a package may import from the package's host what is cached, and nothing else", () => {
  const args = helperArgs({ ...HELPER, module: "https://jsr.io/@taskd/taskd/0.1.0/broker/agent/main.ts" }, false);
  assert(args.includes("--cached-only") && args.includes("--allow-import=jsr.io:443"));
  assert(!args.includes("--deny-import"));
  const local = helperArgs({ ...HELPER, module: "http://127.0.0.1:81/main.ts" }, false);
  assert(local.includes("--allow-import=127.0.0.1:81"));
});

Deno.test("a compiled program starts itself as a helper, with no flag of deno", () => {
  assertEquals(helperArgs(HELPER, true), [
    "internal",
    "agent",
    "--allow-read=.,../databases",
    "--allow-write=.,../databases",
    "--allow-net=127.0.0.1:8088",
    "--heap-mib=256",
    "--mark=1",
  ]);
  for (const compiled of [true, false]) {
    assert(helperArgs(HELPER, compiled).join(" ").startsWith(helperPrefix(compiled)));
  }
});
