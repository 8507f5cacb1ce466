/**
 * A second S3 server that shares no code with the first: versitygw, which keeps objects as
 * plain files. What both do alike is not one server's habit.
 */

import { type GoTool, goTool } from "./go_tool.ts";
import { type S3Server, startS3 } from "./s3_server.ts";

/** The pinned release. */
export const VERSITYGW: GoTool = {
  name: "versitygw",
  package: "github.com/versity/versitygw/cmd/versitygw",
  version: "v1.8.0",
};

/** Starts versitygw with one empty bucket. */
export async function startVersitygw(): Promise<S3Server> {
  return await startS3({
    command: await goTool(VERSITYGW),
    // Metadata in extended attributes: with --sidecar, an object and its etag change one after the other, and a
    // reader may see the new etag with the old content.
    args: (address, directory) => {
      Deno.mkdirSync(`${directory}/data`);
      return ["--quiet", "--port", address, "posix", `${directory}/data`];
    },
    env: ({ access_key_id, secret_access_key }) => ({
      ROOT_ACCESS_KEY: access_key_id,
      ROOT_SECRET_KEY: secret_access_key,
    }),
  });
}
