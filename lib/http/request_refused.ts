/** A request that an HTTP listener refuses for what it is, whatever it asks for. */

import { type ErrorCode, TaskdError, type TaskdErrorOptions } from "../errors.ts";

/** Its status is its own, not its code's. */
export class RequestRefused extends TaskdError {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;

  constructor(
    status: number,
    code: ErrorCode,
    detail: string,
    options: TaskdErrorOptions & { headers?: Readonly<Record<string, string>> } = {},
  ) {
    super(code, detail, options);
    this.status = status;
    this.headers = options.headers ?? {};
  }
}
