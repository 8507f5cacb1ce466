/** Every promise, in the order in which they are tried: what `taskd redteam` runs and tests/cli/redteam/README.md lists. */

import { BUBBLEWRAP_PROMISES } from "./bubblewrap_sandboxes.ts";
import { CONTAINER_PROMISES } from "./container_sandboxes.ts";
import { EMBEDDED_PROMISES } from "./embedded_sandbox.ts";
import { FILE_PROMISES } from "./file_modes.ts";
import { GIT_WALL_PROMISE } from "./git_wall.ts";
import { GIT_PROMISES } from "./git_work_tree.ts";
import { NETWORK_PROMISES } from "./own_addresses.ts";
import type { SecurityPromise } from "./security_promise.ts";

export const PROMISES: readonly SecurityPromise[] = [
  ...NETWORK_PROMISES,
  ...GIT_PROMISES,
  GIT_WALL_PROMISE,
  ...EMBEDDED_PROMISES,
  ...CONTAINER_PROMISES,
  ...BUBBLEWRAP_PROMISES,
  ...FILE_PROMISES,
];
