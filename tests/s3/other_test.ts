/**
 * The same suite on any other server: `BSTORE_TEST_S3=s3://bucket`, with
 * `BSTORE_S3_ENDPOINT`, `BSTORE_S3_REGION` and the credentials where the SDK finds them. Without
 * the first there is nothing here.
 */

import { backendConformance } from "../support/backend_conformance.ts";
import { emptyS3, type S3Place } from "../support/s3_server.ts";
import { engineOnS3 } from "./_engine.ts";

const location = Deno.env.get("BSTORE_TEST_S3");
if (location !== undefined) {
  const { hostname: bucket } = new URL(location);
  const endpoint = Deno.env.get("BSTORE_S3_ENDPOINT");
  const region = Deno.env.get("BSTORE_S3_REGION") ?? Deno.env.get("AWS_REGION");
  const place: S3Place = {
    bucket,
    ...(endpoint === undefined ? {} : { endpoint }),
    ...(region === undefined ? {} : { region }),
  };
  backendConformance(location, () => emptyS3(place));
  engineOnS3(location, () => place);
}
