/**
 * Each operation that removes or replaces a checkout is stopped before and after each call of the backend, as a process is
 * that gets SIGSTOP: longer than leases and claims last. Meanwhile a rival does what it likes with the branch, and an
 * application works in its file. When the operation goes on, nothing of that is lost.
 */

import { assertEquals } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import type { Backend } from "../../lib/backend/backend.ts";
import { CaptureSession } from "../../lib/capture/session.ts";
import { hasCode, TaskdError } from "../../lib/errors.ts";
import { STALE_CLAIM_MS } from "../../lib/store/lease.ts";
import { Store } from "../../lib/store/store.ts";
import { at, OUTRIGHT, rows, stored, type TestStore, withApp } from "../support/stores.ts";
import { scaled, scaledTest } from "../support/long.ts";

/** The operations, and whether the branch is checked out before. */
const OPERATIONS: Record<string, { out: boolean; run: (test: TestStore, store: Store) => Promise<unknown> }> = {
  "destroy": { out: false, run: (_, store) => store.destroy(at("app@x"), { confirm: true }) },
  "destroy of a checkout": { out: true, run: (_, store) => store.destroy(at("app@x"), { confirm: true }) },
  "destroy without a safety branch": { out: false, run: (_, store) => store.destroy(at("app@x"), OUTRIGHT) },
  "reap": { out: false, run: (_, store) => store.reapExpired() },
  "checkout": { out: false, run: (_, store) => store.checkout(at("app@x")) },
  "checkout --force": { out: false, run: (_, store) => store.checkout(at("app@x"), { force: true }) },
  "checkout --force of a checkout": { out: true, run: (_, store) => store.checkout(at("app@x"), { force: true }) },
  "rollback": { out: true, run: (_, store) => store.rollback(at("app@x@c")) },
};

/** What the rival does before an application comes. */
const RIVALS = {
  "checks it out": (store: Store) => store.checkout(at("app@x")),
  "makes it anew": async (store: Store) => {
    await store.destroy(at("app@x"), { ...OUTRIGHT, force: true });
    await store.fork(at("app"), "x");
    await store.checkout(at("app@x"));
  },
  "opens a session": (store: Store) =>
    CaptureSession.open(store, at("app@x"), { flush_every_ms: 0, snapshot_every: 16 }),
};

/** `backend` as a process reaches it that `stop` can hold before and after each call. */
function stopping(backend: Backend, stop: () => Promise<void>): Backend {
  return new Proxy(backend, {
    get(target, name) {
      const found = Reflect.get(target, name);
      if (typeof found !== "function") return found;
      if (name === "list") return found.bind(target);
      return async (...args: unknown[]) => {
        await stop();
        try {
          return await found.apply(target, args);
        } finally {
          await stop();
        }
      };
    },
  });
}

/** Lets time pass until `work` has ended. */
async function passTime(clock: TestStore["clock"], work: Promise<unknown>): Promise<void> {
  let ended = false;
  void work.catch(() => {}).finally(() => ended = true);
  while (!ended) {
    clock.advance(5);
    await new Promise((resolve) => setTimeout(resolve, 0));
  }
  await work;
}

/** Runs one operation, stopped at the `count`th place; false when it has fewer. */
async function stopOnce(
  { out, run }: typeof OPERATIONS[string],
  rival: (store: Store) => Promise<unknown>,
  count: number,
): Promise<boolean> {
  let places = 0;
  let stopped: Promise<void> | undefined;
  await withApp([1], async (test) => {
    const { store, clock, directory } = test;
    await store.fork(at("app"), "x");
    const { path } = await store.checkout(at("app@x"));
    await store.checkpoint(at("app@x"), "c");
    if (!out) { for (const suffix of ["", ".sum", ".shadow"]) await Deno.remove(path + suffix).catch(() => {}); }
    await store.touch(at("app@x"), { ttl_ms: 1 });
    clock.advance(5);
    let application: DatabaseSync | undefined;
    let session: CaptureSession | undefined;
    const stop = () => {
      if (++places === count) {
        stopped = (async () => {
          clock.advance(STALE_CLAIM_MS + 1);
          try {
            // Only then may a rival have it: a reaper's branch would expire otherwise.
            await store.touch(at("app@x"), { ttl_ms: null }).catch(() => {});
            const made = await rival(store);
            if (made instanceof CaptureSession) session = made;
          } catch (error) {
            if (!(error instanceof TaskdError) || hasCode(error, "internal")) throw error;
            return;
          }
          const opened = new DatabaseSync(path, { timeout: 0 });
          try {
            opened.exec("INSERT INTO t VALUES('before')");
          } catch {
            // Kept waiting: the stopped process has the file.
            return opened.close();
          }
          application = opened;
          await session?.flush();
        })();
      }
      return stopped ?? Promise.resolve();
    };
    const own = await Store.open({ workspace: directory, clock, backend: stopping(store.context.backend, stop) });
    places = 0;
    stopped = undefined;
    try {
      const done = run(test, own).catch((error) => {
        if (!(error instanceof TaskdError) || hasCode(error, "internal")) throw error;
      });
      await passTime(clock, done.then(() => stopped));
      if (application === undefined) return;
      application.exec("INSERT INTO t VALUES('after')");
      assertEquals(rows(path).split(",").slice(-2), ["before", "after"]);
      if (session === undefined) return;
      await passTime(clock, session.flush());
      assertEquals((await stored(store, "app@x")).split(",").slice(-2), ["before", "after"]);
    } finally {
      application?.close();
      if (session) await passTime(clock, session.close());
      own.close();
    }
  });
  return places >= count;
}

for (const [name, operation] of Object.entries(OPERATIONS)) {
  scaledTest(`${name}, stopped anywhere, leaves what a rival has made of the branch`, async (t) => {
    for (const [what, rival] of Object.entries(RIVALS)) {
      // A session waits a second, in real time, each time that it finds the file locked.
      if (operation.out && what === "opens a session") continue;
      await t.step(`that ${what}`, async () => {
        const stride = scaled({ short: 8, long: 1 });
        for (let count = 1; await stopOnce(operation, rival, count); count += stride);
      });
    }
  });
}
