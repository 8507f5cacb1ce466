/**
 * A Worker that dies of a defect while its command runs.
 */

import { hostCommand } from "../../../cli/run/worker_host.ts";

hostCommand(() => {
  queueMicrotask(() => {
    throw new TypeError("staged \x1b[31m defect");
  });
  return new Promise(() => {});
});
