import { assertEquals } from "@std/assert";
import { VirtualClock } from "../../tests/support/clock.ts";
import { withDirectory } from "../../tests/support/stores.ts";
import { SeededRandom } from "../../tests/support/writers/random.ts";
import type { ReplaceOptions } from "../backend/backend.ts";
import { MemoryBackend } from "../../tests/support/memory_backend.ts";
import { Holder } from "./holder.ts";
import { Lease, LEASE_TTL_MS } from "./lease.ts";
import { Refs } from "./ref.ts";

/** Memory of a machine whose power can be cut: what may revert by then does. */
class PoweredBackend extends MemoryBackend {
  readonly #before = new Map<string, Uint8Array>();

  override async replace(key: string, bytes: Uint8Array, etag: string, options: ReplaceOptions = {}): Promise<string> {
    const before = this.#before.get(key) ?? (await this.get(key)).bytes;
    const written = await super.replace(key, bytes, etag);
    if (options.may_revert) this.#before.set(key, before);
    else this.#before.delete(key);
    return written;
  }

  async cutPower(): Promise<void> {
    for (const [key, bytes] of this.#before) await this.put(key, bytes);
    this.#before.clear();
  }
}

Deno.test("a power failure may lose renewals, and neither a head nor others' changes", () =>
  withDirectory(async (directory) => {
    const [memory, clock, random] = [new PoweredBackend(), new VirtualClock(), new SeededRandom(1).bytes];
    const refs = new Refs(memory, random);
    const holder = new Holder(`${directory}/w`, "cli", { random, clock });
    await refs.create("db", "main", {
      lineage: "0".repeat(32),
      epoch: 1,
      txid: 1,
      digest: "0".repeat(16),
      checkpoints: [],
      touched_at: "2026-01-01T00:00:00.000Z",
    });
    const now = async () => (await refs.read("db", "main")).ref;
    const lease = await Lease.acquire({ refs, holder, clock }, { db: "db", branch: "main" });
    const renew = async () => {
      clock.advance(1_000);
      await lease.write();
    };
    const acquired = await now();
    await renew();
    assertEquals(Date.parse((await now()).lease!.expires_at), clock.now() + LEASE_TTL_MS);
    await memory.cutPower();
    assertEquals(await now(), acquired);

    await lease.write((ref) => ({ ...ref, txid: 2 }));
    const written = await now();
    assertEquals(written.txid, 2);
    await renew();
    await renew();
    await memory.cutPower();
    assertEquals(await now(), written);

    await refs.update("db", "main", (ref) => ({ ...ref, protected: true }));
    const changed = await now();
    await renew();
    await memory.cutPower();
    assertEquals(await now(), changed);

    await renew();
    await lease.release();
    await memory.cutPower();
    assertEquals((await now()).lease, undefined);
    holder.close();
  }));
