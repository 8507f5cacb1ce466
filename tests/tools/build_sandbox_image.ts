/**
 * Builds the images that the tests of container sandboxes run, so that no test has to wait for that.
 *
 *     deno run -A tests/tools/build_sandbox_image.ts
 */

import { testImages } from "../support/podman.ts";

console.log(await testImages((step) => console.log(`building: ${step}`)));
