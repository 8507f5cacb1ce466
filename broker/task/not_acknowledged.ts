/**
 * The one refusal that carries more than words: an approval that leaves out categories. The engine throws it, the
 * listeners put the list into the answer, and the client makes the same error of it again.
 */

import { TaskdError } from "../../lib/errors.ts";

export class NotAcknowledged extends TaskdError {
  readonly missing: readonly string[];

  constructor(missing: readonly string[], detail: string) {
    super("not_acknowledged", detail, { hint: "Look at each of them, then acknowledge it by name" });
    this.missing = missing;
  }
}
