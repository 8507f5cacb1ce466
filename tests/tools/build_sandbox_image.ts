/**
 * Builds the images that the tests of container sandboxes run, and installs the agents that tests of bubblewrap run, so
 * that no test has to wait for that.
 *
 *     deno run -A tests/tools/build_sandbox_image.ts
 */

import { hostAgentsView } from "../support/host_agents.ts";
import { testImages } from "../support/podman.ts";

console.log(await testImages((step) => console.log(`building: ${step}`)));
console.log((await hostAgentsView("nvm")).programs);
