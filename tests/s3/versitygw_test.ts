import { backendConformance } from "../support/backend_conformance.ts";
import { LONG, LONG_MARK } from "../support/long.ts";
import { startVersitygw } from "../support/second_s3.ts";
import { emptyS3, type S3Server } from "../support/s3_server.ts";
import { engineOnS3 } from "./_engine.ts";
import { gcModelOnS3 } from "./_gc_model.ts";
import { harmedEngineOnS3 } from "./_harmed.ts";
import { rotOnS3 } from "./_rot.ts";
import { seededFaultsOnS3 } from "./_seeded.ts";

/** A second server shows what only the first does; it runs in the long suite. */
if (LONG) {
  const name = `versitygw ${LONG_MARK}`;
  let server: S3Server;
  Deno.test.beforeAll(async () => {
    server = await startVersitygw();
  });
  Deno.test.afterAll(async () => await server[Symbol.asyncDispose]());

  backendConformance(name, () => emptyS3(server));
  engineOnS3(name, () => server);
  gcModelOnS3(name, () => server);
  seededFaultsOnS3(name, () => server);
  rotOnS3(name, () => server);
  harmedEngineOnS3(name, () => server);
}
