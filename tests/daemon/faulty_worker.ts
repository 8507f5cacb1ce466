/**
 * A worker for tests that fails as no real one should: `lease` throws outside of any call, `databases` is
 * never answered, a database of the name `refused` cannot be opened, everything else is answered at once.
 */

import { packError, type WorkerCall, type WorkerReply } from "../../daemon/worker_messages.ts";
import { TaskdError } from "../../lib/errors.ts";

const scope = globalThis as unknown as {
  onmessage: (event: MessageEvent<WorkerCall>) => void;
  postMessage(reply: WorkerReply): void;
};

scope.onmessage = ({ data }) => {
  if (data.kind === "store" && data.method === "databases") return;
  if (data.kind === "store" && data.method === "lease") {
    throw new Error("staged crash");
  }
  if (data.kind === "open" && data.address.db === "refused") {
    const error = packError(new TaskdError("lease_held", "Cannot open it"));
    return scope.postMessage({ kind: "failed", call: data.call, error });
  }
  const result = data.kind === "setup"
    ? "3.0.0"
    : data.kind === "open"
    ? { holder: "daemon:a:b", epoch: 1 }
    : undefined;
  scope.postMessage({ kind: "done", call: data.call, result });
};
