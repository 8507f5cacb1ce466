/**
 * A checkout at rest, read behind a write barrier.
 */

import { TaskdError } from "../errors.ts";
import { LOCK_TIMEOUT_MS } from "../retry_while_busy.ts";
import { CheckoutFile } from "../sqlite/checkout_file.ts";
import { type DatabaseImage, RebaseNeeded, WalTail } from "../sqlite/wal_tail.ts";

/** A checkout being read: no process can commit to it until it is released. */
export interface QuietCheckout extends Disposable {
  image: DatabaseImage;
  /** The main file alone is the whole image: the log is folded into it. */
  complete: boolean;
  path: string;
  change_counter: number;
}

/**
 * Opens a checkout at rest behind a write barrier.
 *
 * @throws {TaskdError} `busy` when another process is writing to it, `capture_failed`, `not_a_database`, `unavailable`.
 */
export function openQuietCheckout(path: string): QuietCheckout {
  const file = CheckoutFile.open(path, { busy_timeout_ms: LOCK_TIMEOUT_MS });
  try {
    const { tail } = WalTail.attach(file);
    const { complete, release } = tail.hold();
    return {
      image: refusing(path, tail.image()),
      complete,
      path,
      change_counter: file.header().change_counter,
      [Symbol.dispose]: () => {
        release();
        file.close();
      },
    };
  } catch (error) {
    file.close();
    throw refusal(path, error);
  }
}

/** The same image, whose pages are refused where they cannot be read: something cut the file or its log short. */
function refusing(path: string, image: DatabaseImage): DatabaseImage {
  return {
    ...image,
    readPages: (first, count, into) => {
      try {
        image.readPages(first, count, into);
      } catch (error) {
        throw refusal(path, error);
      }
    },
  };
}

function refusal(path: string, error: unknown): unknown {
  if (!(error instanceof RebaseNeeded)) return error;
  return new TaskdError("capture_failed", `Cannot read ${path}: ${error.message}`, { cause: error });
}
