import { assert, assertEquals } from "@std/assert";
import type { BackendErrorCode } from "../backend/backend.ts";
import { TaskdError } from "../errors.ts";
import { type FaultPlan, FaultyBackend } from "../../tests/support/faulty_backend.ts";
import { MemoryBackend } from "../../tests/support/memory_backend.ts";
import { at, openAt, type TestStore, withApp, withDirectory } from "../../tests/support/stores.ts";
import type { Store } from "./store.ts";

type Promised = {
  [M in keyof Store]: Store[M] extends (...args: never[]) => Promise<unknown> ? M : never;
}[keyof Store];

/** One call of each method that reaches the backend, on a branch of its own, with one checkpoint and one edit. */
const CALLS: Record<
  Exclude<Promised, "enforceRoCacheBudget" | "openIn">,
  (test: TestStore, branch: string) => Promise<unknown>
> = {
  create: ({ store, directory }, branch) => store.create(branch, { from: `${directory}/source.db` }),
  checkout: ({ store }, branch) => store.checkout(at(`app@${branch}`), { force: true }),
  path: ({ store }, branch) => store.path(at(`app@${branch}`)),
  checkpoint: ({ store }, branch) => store.checkpoint(at(`app@${branch}`), "next"),
  fork: ({ store }, branch) => store.fork(at(`app@${branch}`), `${branch}-fork`, { materialize: true }),
  rollback: ({ store }, branch) => store.rollback(at(`app@${branch}@own`)),
  promote: ({ store }, branch) => store.promote(at("app@main@c2"), at(`app@${branch}`)),
  compact: ({ store }, branch) => store.compact(at(`app@${branch}`)),
  destroy: ({ store }, branch) => store.destroy(at(`app@${branch}`), { confirm: true }),
  undo: ({ store }, branch) => store.rollback(at(`app@${branch}@own`)).then(() => store.undo(at(`app@${branch}`))),
  merges: ({ store }, branch) => store.merges(at(`app@${branch}`)),
  log: ({ store }, branch) => store.log(at(`app@${branch}`)),
  parent: ({ store }, branch) => store.parent(at(`app@${branch}`)),
  undoable: ({ store }, branch) => store.undoable(at(`app@${branch}`)),
  touch: ({ store }, branch) => store.touch(at(`app@${branch}`), { ttl_ms: 1000 }),
  protect: ({ store }, branch) => store.protect(at(`app@${branch}`), true),
  export: ({ store, directory }, branch) => store.export(at(`app@${branch}`), `${directory}/${branch}.db`),
  diff: ({ store }, branch) => store.diff(at(`app@${branch}`), at("app@main@c1")),
  diffRows: ({ store }, branch) => store.diffRows(at(`app@${branch}`), at("app@main@c1"), "t"),
  verify: ({ store }, branch) => store.verify(at(`app@${branch}`)),
  verifyAll: ({ store }) => store.verifyAll(),
  repair: ({ store }) => store.repair(),
  scrub: ({ store }) => store.scrub({ scrub_every_ms: 0 }),
  condition: ({ store }) => store.condition(),
  status: ({ store }, branch) => store.status(at(`app@${branch}`)),
  branches: ({ store }) => store.branches(),
  databases: ({ store }) => store.databases(),
  lease: ({ store }, branch) => store.lease(at(`app@${branch}`)),
  foldHistory: ({ store }) => store.foldHistory(),
  collectGarbage: ({ store }) => store.collectGarbage({ grace_ms: 0 }),
  reapExpired: ({ store }) => store.reapExpired(),
};

/** Makes each backend call of `run` fail in turn; what it then throws must be a {@linkcode TaskdError}. */
async function failEachCall(
  what: string,
  setPlan: (plan: FaultPlan) => void,
  run: (count: number) => Promise<unknown>,
): Promise<number> {
  const codes: BackendErrorCode[] = ["unavailable", "denied", "not_found"];
  for (let failing = 1; failing < 500; failing++) {
    let calls = 0;
    const code = codes[failing % codes.length]!;
    setPlan(() => ++calls === failing ? { kind: "before", code } : undefined);
    const error = await run(failing).then(() => undefined, (error) => error);
    setPlan(() => undefined);
    assert(error === undefined || error instanceof TaskdError, `${what}, call ${failing}: ${error?.stack}`);
    if (calls < failing) return calls;
  }
  throw new Error(`${what} makes ever more calls`);
}

for (const [method, call] of Object.entries(CALLS)) {
  Deno.test(`${method}() throws a TaskdError whichever call of the backend fails`, () =>
    withApp([1, 2], async (test) => {
      const { store, faults, edit } = test;
      const made = await failEachCall(method, (plan) => faults.plan = plan, async (count) => {
        const { plan } = faults;
        faults.plan = () => undefined;
        // What looks at the whole store would make more calls with every branch.
        const branch = call.length === 1 ? "b" : `b${count}`;
        if (count === 1 || call.length > 1) {
          await store.fork(at("app"), branch);
          await edit(branch, "stored");
          await store.checkpoint(at(`app@${branch}`), "own");
          await edit(branch, "unsaved");
        }
        store.context.chains.forget();
        faults.plan = plan;
        return await call(test, branch);
      });
      assert(made > 0);
    }));
}

Deno.test("Store.open() throws a TaskdError whichever call of the backend fails", () =>
  withDirectory(async (directory) => {
    let plan: FaultPlan = () => undefined;
    const open = async () => {
      using store = await openAt(directory, { backend: new FaultyBackend(new MemoryBackend(), (call) => plan(call)) });
      assertEquals(await store.databases(), []);
    };
    assert(await failEachCall("open", (next) => plan = next, open) > 4);
  }));
