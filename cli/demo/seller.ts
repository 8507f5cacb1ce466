/**
 * The demo's application: a stock SQLite client in a process of its own, the sqlite3 shell or else Python's module, that
 * sells until it is stopped. An order is one transaction, and is counted when its commit was acknowledged.
 */

import { systemClock } from "../../lib/clock.ts";
import { TaskdError } from "../../lib/errors.ts";
import { linesOf } from "./own_process.ts";
import { PRODUCTS } from "./shop.ts";

// The shell speaks statements and rows already; this teaches Python to, and to stop at the first error.
const PYTHON = `
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=20)
for line in sys.argv[2].split(";") if len(sys.argv) > 2 else sys.stdin:
    for row in db.execute(line):
        print("|".join("" if value is None else str(value) for value in row))
    sys.stdout.flush()
`;
const CLIENTS = [["sqlite3", "-batch", "-bail", "-cmd", ".timeout 20000"], ["python3", "-c", PYTHON]] as const;
// Between one order and the next: a shop's customers are quick, but not a loop.
const PAUSE_MS = 5;

/** The first client that this machine has, as the words before a file's path. */
export async function findSqlClient(): Promise<readonly string[]> {
  for (const client of CLIENTS) {
    const [program, ...args] = client;
    const test = new Deno.Command(program, { args: [...args, ":memory:", "SELECT 1"], stdin: "null", stderr: "null" });
    if (await Promise.try(() => test.output()).then(({ success }) => success, () => false)) return client;
  }
  const message = "Cannot write to a database as an application would: no SQLite client is installed";
  throw new TaskdError("not_found", message, { hint: "Install the sqlite3 shell or Python 3" });
}

export class Seller implements AsyncDisposable {
  /** Orders whose commit was acknowledged. */
  sold = 0;
  readonly #child: Deno.ChildProcess;
  readonly #complaints: Promise<string>;
  readonly #selling: Promise<void>;
  #stopped = false;
  #waiting: { count: number; reached: PromiseWithResolvers<void> } | undefined;

  /** Begins to sell from the shop at `path`. */
  constructor(client: readonly string[], path: string, signal: AbortSignal) {
    const [program, ...args] = client;
    const streams = { stdin: "piped", stdout: "piped", stderr: "piped" } as const;
    this.#child = new Deno.Command(program!, { args: [...args, path], signal, ...streams }).spawn();
    this.#complaints = new Response(this.#child.stderr).text();
    this.#selling = this.#sell();
    // It is thrown to who stops it, or waits for an order.
    this.#selling.catch(() => {});
  }

  /** Waits until it has sold so many more. */
  async sells(more: number): Promise<void> {
    const waiting = this.#waiting = { count: this.sold + more, reached: Promise.withResolvers<void>() };
    await Promise.race([waiting.reached.promise, this.#selling]);
  }

  /** Lets the last order end; throws where the application has failed. */
  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#selling;
  }

  async #sell(): Promise<void> {
    const answers = linesOf(this.#child.stdout);
    const input = this.#child.stdin.getWriter();
    while (!this.#stopped) {
      await systemClock.sleep(PAUSE_MS);
      const number = this.sold + 1;
      await input.write(new TextEncoder().encode(order(number))).catch(() => {});
      if ((await answers.next()).value !== String(number)) throw await this.#failure();
      this.sold = number;
      if (number === this.#waiting?.count) this.#waiting.reached.resolve();
    }
    await input.close();
    if (!(await this.#child.status).success) throw await this.#failure();
  }

  async #failure(): Promise<TaskdError> {
    return new TaskdError(
      "internal",
      `The shop's application failed: ${(await this.#complaints).trim() || "it ended"}`,
    );
  }

  /** Ends it at once if it is still there. */
  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.allSettled([this.#child[Symbol.asyncDispose](), this.#selling, this.#complaints]);
  }
}

/** One order of one product at its price; its number comes back once it is committed. */
function order(number: number): string {
  const product = 1 + number * 7_919 % PRODUCTS;
  return `BEGIN IMMEDIATE;
INSERT INTO orders (product_id, price) SELECT id, price FROM products WHERE id = ${product};
COMMIT;
SELECT ${number};
`;
}
