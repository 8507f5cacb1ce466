import { assert, assertEquals, assertLess, assertRejects } from "@std/assert";
import { nextTurn } from "../../lib/clock.ts";
import { LARGE_BUFFER_BYTES, SharedBuffers } from "./_shared_buffers.ts";
import { BufferedConnection, EndedEarly, type Stream } from "./_buffered_connection.ts";

const SMALL_BYTES = 4 << 10;
const LARGE_BYTES = 128 << 10;

function silence(): void {}

/** A connection that has `sizes` to read, one read each, and whose peer takes `taken_bytes` and then is gone. */
class Scripted implements Stream {
  readonly offered: number[] = [];
  readonly written: number[] = [];
  readonly #sizes: number[];
  readonly #taken_bytes: number;
  #next = 0;

  constructor(sizes: number[], taken_bytes = Infinity) {
    this.#sizes = sizes;
    this.#taken_bytes = taken_bytes;
  }

  read(into: Uint8Array): Promise<number | null> {
    this.offered.push(into.length);
    const size = this.#sizes.shift();
    if (size === undefined) return Promise.resolve(null);
    if (size > into.length) return Promise.reject(new RangeError(`${size} bytes do not fit into ${into.length}`));
    for (let i = 0; i < size; i++) into[i] = this.#next++ & 0xff;
    return Promise.resolve(size);
  }

  write(bytes: Uint8Array): Promise<number> {
    if (this.written.length + bytes.length > this.#taken_bytes) return Promise.reject(new Deno.errors.BrokenPipe());
    for (const byte of bytes) this.written.push(byte);
    return Promise.resolve(bytes.length);
  }

  closeWrite(): Promise<void> {
    return Promise.resolve();
  }

  close(): void {}
}

function pass(from: Stream, to: Stream, buffers: SharedBuffers): Promise<void> {
  return new BufferedConnection(from, silence, buffers).passAll(new BufferedConnection(to, silence, buffers));
}

Deno.test("a bounded number of large buffers is lent, and one that came back is lent again", () => {
  const buffers = new SharedBuffers(2);
  const [one, two] = [buffers.lend(), buffers.lend()];
  assert(one !== undefined && two !== undefined && one !== two);
  assertEquals([one.length, two.length], [LARGE_BUFFER_BYTES, LARGE_BUFFER_BYTES]);
  assertEquals(buffers.lend(), undefined);
  buffers.giveBack(one);
  assert(buffers.lend() === one);
  assertEquals(buffers.lend(), undefined);
});

Deno.test("reads grow with what comes, a slow peer returns its large buffer, and order is kept", async () => {
  const sizes = [SMALL_BYTES, LARGE_BYTES, LARGE_BUFFER_BYTES, 100, LARGE_BYTES, 7];
  const [from, to] = [new Scripted([...sizes]), new Scripted([])];
  await pass(from, to, new SharedBuffers(1));
  assertEquals(from.offered, [
    SMALL_BYTES,
    LARGE_BYTES,
    LARGE_BUFFER_BYTES,
    LARGE_BUFFER_BYTES,
    LARGE_BYTES,
    LARGE_BUFFER_BYTES,
    LARGE_BYTES,
  ]);
  assertEquals(to.written.length, sizes.reduce((sum, size) => sum + size));
  assert(to.written.every((byte, at) => byte === (at & 0xff)));
});

Deno.test("a long body is read in large pieces too, and not a byte beyond its end", async () => {
  const sizes = [SMALL_BYTES, LARGE_BYTES, LARGE_BUFFER_BYTES, 10];
  const length = sizes.reduce((sum, size) => sum + size);
  const [from, to] = [new Scripted([...sizes, 1]), new Scripted([])];
  const buffers = new SharedBuffers(1);
  const wire = new BufferedConnection(from, silence, buffers);
  await wire.pass(new BufferedConnection(to, silence, buffers), length);
  assertEquals(from.offered, [SMALL_BYTES, LARGE_BYTES, LARGE_BUFFER_BYTES, 10]);
  assertEquals(to.written.length, length);
  assert(to.written.every((byte, at) => byte === (at & 0xff)));
  const cut = new BufferedConnection(new Scripted([...sizes]), silence, buffers);
  await assertRejects(
    () => cut.pass(new BufferedConnection(new Scripted([]), silence, buffers), length + 1),
    EndedEarly,
  );
  assert(buffers.lend() !== undefined);
});

Deno.test("a connection that gets no large buffer goes on in smaller pieces", async () => {
  const [from, to] = [new Scripted([SMALL_BYTES, LARGE_BYTES, LARGE_BYTES]), new Scripted([])];
  await pass(from, to, new SharedBuffers(0));
  assertEquals(from.offered, [SMALL_BYTES, LARGE_BYTES, LARGE_BYTES, LARGE_BYTES]);
  assertEquals(to.written.length, SMALL_BYTES + 2 * LARGE_BYTES);
});

Deno.test("a large buffer comes back when its connection ends, and when it fails", async () => {
  const buffers = new SharedBuffers(1);
  const busy = [SMALL_BYTES, LARGE_BYTES, LARGE_BUFFER_BYTES];
  await pass(new Scripted([...busy]), new Scripted([]), buffers);
  const lent = buffers.lend();
  assert(lent !== undefined);
  buffers.giveBack(lent);
  const gone = new Scripted([], SMALL_BYTES + LARGE_BYTES);
  await assertRejects(() => pass(new Scripted([...busy]), gone, buffers), Deno.errors.BrokenPipe);
  assertEquals(gone.written.length, SMALL_BYTES + LARGE_BYTES);
  assert(buffers.lend() === lent);
});

Deno.test("what waits for a slow peer in a large buffer is not touched by another connection", async () => {
  const buffers = new SharedBuffers(1);
  const gate = Promise.withResolvers<void>();
  const stalled = Promise.withResolvers<void>();
  const slow = new class extends Scripted {
    override async write(bytes: Uint8Array): Promise<number> {
      if (bytes.length === LARGE_BUFFER_BYTES) {
        stalled.resolve();
        await gate.promise;
      }
      return await super.write(bytes);
    }
  }([]);
  const sizes = [SMALL_BYTES, LARGE_BYTES, LARGE_BUFFER_BYTES];
  const passing = pass(new Scripted([...sizes]), slow, buffers);
  await stalled.promise;
  await pass(new Scripted([1, SMALL_BYTES, LARGE_BYTES, LARGE_BYTES]), new Scripted([]), buffers);
  gate.resolve();
  await passing;
  assertEquals(slow.written.length, sizes.reduce((sum, size) => sum + size));
  assert(slow.written.every((byte, at) => byte === (at & 0xff)));
});

Deno.test("connections that always have more leave others their turn", async () => {
  let over = false;
  let reads = 0;
  const endless: Stream = {
    read: (into) => Promise.resolve(over || ++reads > 1_000 ? null : into.length),
    write: (bytes) => Promise.resolve(bytes.length),
    closeWrite: () => Promise.resolve(),
    close: silence,
  };
  const buffers = new SharedBuffers();
  const passing = Promise.all([pass(endless, endless, buffers), pass(endless, endless, buffers)]);
  for (let turns = 0; turns < 3; turns++) await nextTurn();
  over = true;
  await passing;
  assertLess(reads, 1_000);
});
