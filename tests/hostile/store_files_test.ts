import { assert, assertEquals } from "@std/assert";
import { OUTRIGHT } from "../support/stores.ts";
import type { ErrorCode } from "../../lib/errors.ts";
import { parseAddress } from "../../lib/store/names.ts";
import { Bench, Operator } from "./_bench.ts";
import { scaledTest, shortened } from "../support/long.ts";

const main = parseAddress("app");
const other = parseAddress("app@other");

async function bench(): Promise<Bench> {
  const bench = await Bench.make();
  const operator = bench.operator();
  await operator.ok("create", "app", { from: await bench.database() });
  await operator.ok("fork", main, "other");
  await bench.expect(operator, "app@main");
  await bench.expect(operator, "app@other");
  await operator.end();
  return bench;
}

/** Puts something in place of a file of the store for the length of `work`. */
async function instead(path: string, put: (path: string) => Promise<unknown>, work: () => Promise<void>) {
  await Deno.rename(path, `${path}.kept-away`);
  try {
    await put(path);
    await work();
  } finally {
    await Deno.remove(path, { recursive: true }).catch(() => {});
    await Deno.rename(`${path}.kept-away`, path);
  }
}

async function mkfifo(path: string): Promise<void> {
  const { success } = await new Deno.Command("mkfifo", { args: [path] }).output();
  assert(success);
}

const text = (content: string | Uint8Array) => (path: string) =>
  Deno.writeFile(path, typeof content === "string" ? new TextEncoder().encode(content) : content);

const edited = async (path: string, change: (ref: Record<string, unknown>) => unknown) => {
  const { sum: _, ...json } = JSON.parse(await Deno.readTextFile(`${path}.kept-away`)) as Record<string, unknown>;
  await Deno.writeTextFile(path, JSON.stringify(change(json)));
};

/** A ref that is there and says something wrong is listed, with its problem, beside the others. */
const LISTED_CODES: ErrorCode[] = ["corrupt", "unsupported_format", "chain_gap"];

const REFS: [name: string, put: (path: string) => Promise<unknown>, codes: ErrorCode[]][] = [
  ["empty", text(""), ["corrupt"]],
  ["not JSON", text("{"), ["corrupt"]],
  ["not UTF-8", text(new Uint8Array([0xff, 0xfe, 0x00])), ["corrupt"]],
  ["JSON of another kind", text("[]"), ["corrupt"]],
  ["null", text("null"), ["corrupt"]],
  ["of a future schema", (path) => edited(path, (ref) => ({ ...ref, schema: 99 })), ["unsupported_format"]],
  ["without a lineage", (path) => edited(path, ({ lineage: _, ...ref }) => ref), ["corrupt"]],
  ["with a lineage that is a path", (path) => edited(path, (ref) => ({ ...ref, lineage: "../../../etc" })), [
    "corrupt",
  ]],
  ["with a negative txid", (path) => edited(path, (ref) => ({ ...ref, txid: -1 })), ["corrupt"]],
  ["with a head that is not there", (path) => edited(path, (ref) => ({ ...ref, txid: 77 })), ["chain_gap", "corrupt"]],
  ["with another head's digest", (path) => edited(path, (ref) => ({ ...ref, digest: "0123456789abcdef" })), [
    "corrupt",
  ]],
  ["17 MiB long", text(new Uint8Array(17 << 20).fill(32)), ["corrupt", "unavailable", "too_large"]],
  ["a directory", (path) => Deno.mkdir(path), ["denied"]],
  ["a link out of the store", (path) => Deno.symlink("/etc/hostname", path), ["denied", "corrupt"]],
  ["a FIFO", mkfifo, ["denied", "corrupt", "unavailable"]],
];

scaledTest("a ref that cannot be read is one clear error, and its neighbours stay readable", async (t) => {
  await using store = await bench();
  const path = `${store.location}/refs/app/main.json`;
  for (const [name, put, codes] of shortened(REFS, 3)) {
    await t.step(`a ref ${name}`, () =>
      instead(path, put, async () => {
        const operator = store.operator();
        await operator.fails(codes, "export", main, store.file());
        await operator.fails(codes, "checkout", main);
        // A fork reads no object: it cannot know that a head is not what its ref says.
        if (!name.endsWith("digest")) await operator.fails(codes, "fork", main, "new");
        assertEquals(await store.read(operator, "app@other"), store.expected.get("app@other"));
        await operator.ok("status", other);
        if (codes.every((code) => LISTED_CODES.includes(code))) {
          const listed = await operator.ok("branches") as unknown as { branch: string }[];
          assertEquals(listed.map(({ branch }) => branch).sort(), ["main", "other"]);
        }
        await operator.end();
      }));
  }
  await store.audit();
});

const MANIFESTS: [name: string, put: (path: string) => Promise<unknown>, codes: ErrorCode[]][] = [
  ["empty", text(""), ["not_a_store"]],
  ["not JSON", text("hello"), ["not_a_store"]],
  ["of another product", text(`{"format":"photos","layout_version":1}`), ["not_a_store"]],
  ["of layout 3", (path) => edited(path, (json) => ({ ...json, layout_version: 3 })), ["unsupported_layout"]],
  ["without a layout", (path) => edited(path, ({ layout_version: _, ...json }) => json), ["corrupt"]],
  ["missing", () => Promise.resolve(), ["not_a_store"]],
  ["a directory", (path) => Deno.mkdir(path), ["denied"]],
  ["a FIFO", mkfifo, ["not_a_store", "denied", "unavailable"]],
];

Deno.test("a store whose manifest is not ours is refused up front and left as it is", async (t) => {
  await using store = await bench();
  const path = `${store.location}/bstore.json`;
  for (const [name, put, codes] of MANIFESTS) {
    await t.step(`a manifest ${name}`, () =>
      instead(path, put, async () => {
        const operator = store.operator();
        await operator.fails(codes, "branches");
        await operator.fails(codes, "create", "new");
        await operator.end();
      }));
  }
  await store.audit();
});

Deno.test("a directory in place of the tombstones is reported, and no branch is half made", async () => {
  await using store = await bench();
  const path = `${store.location}/gc/tombstones.json`;
  const operator = store.operator();
  await operator.ok("destroy", other, OUTRIGHT);
  store.expected.delete("app@other");
  await Deno.mkdir(path, { recursive: true });
  for (
    const [op, code, ...args] of [["collectGarbage", "gc_failed", { grace_ms: 0 }], [
      "fork",
      "denied",
      main,
      "new",
    ]] as const
  ) {
    const answer = await operator.run(op, ...args);
    assert(answer !== undefined && !answer.ok, op);
    assertEquals([answer.code, answer.hint], [code, "Move it out of the store"], answer.message);
    assert(answer.message.includes(`${path} is a directory`), answer.message);
  }
  await Deno.remove(path);
  await operator.ok("collectGarbage", { grace_ms: 0 });
  await operator.end();
  await store.audit();
});

Deno.test("where a file stands in place of the refs or of the data, nothing is taken for garbage", async () => {
  await using store = await bench();
  for (const name of ["refs", "data"]) {
    await instead(`${store.location}/${name}`, text(""), async () => {
      const operator = store.operator();
      await operator.fails("gc_failed", "collectGarbage", { grace_ms: 0 });
      if (name === "refs") await operator.fails("denied", "branches");
      await operator.end();
    });
  }
  const operator = store.operator();
  const { tombstoned, deleted } = await operator.ok("collectGarbage", { grace_ms: 0 });
  assertEquals([tombstoned, deleted], [0, 0]);
  await operator.end();
  await store.audit();
});

Deno.test("a file, or a directory with other data, is not made a store", async () => {
  await using store = await bench();
  const file = store.file();
  await Deno.writeTextFile(file, "mine");
  const operator = new Operator(file);
  await operator.fails(["not_a_store", "denied", "unavailable"], "branches");
  await operator.end();
  assertEquals(await Deno.readTextFile(file), "mine");
});
