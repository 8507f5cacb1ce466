/**
 * MinIO, the S3 server most people run themselves.
 */

import { type GoTool, goTool } from "./go_tool.ts";
import { type S3Server, startS3 } from "./s3_server.ts";

/** The last state of its public source. */
export const MINIO: GoTool = {
  name: "minio",
  package: "github.com/minio/minio",
  version: "v0.0.0-20260212201848-7aac2a2c5b7c",
};

/** Starts MinIO with one empty bucket. */
export async function startMinio(): Promise<S3Server> {
  return await startS3({
    command: await goTool(MINIO),
    args: (address, directory) => ["server", "--quiet", "--address", address, `${directory}/data`],
    env: ({ access_key_id, secret_access_key }) => ({
      MINIO_ROOT_USER: access_key_id,
      MINIO_ROOT_PASSWORD: secret_access_key,
      MINIO_BROWSER: "off",
      MINIO_UPDATE: "off",
    }),
  });
}
