/**
 * Builds the S3 servers that tests speak to, so that no test has to wait for that.
 *
 *     deno run -A tests/tools/build_servers.ts
 */

import { goTool } from "../support/go_tool.ts";
import { MINIO } from "../support/minio.ts";
import { VERSITYGW } from "../support/second_s3.ts";

for (const tool of [MINIO, VERSITYGW]) console.log(await goTool(tool));
