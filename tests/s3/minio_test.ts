import { backendConformance } from "../support/backend_conformance.ts";
import { LONG, LONG_MARK } from "../support/long.ts";
import { startMinio } from "../support/minio.ts";
import { emptyS3, type S3Server } from "../support/s3_server.ts";
import { engineOnS3 } from "./_engine.ts";
import { gcModelOnS3 } from "./_gc_model.ts";
import { harmedEngineOnS3 } from "./_harmed.ts";
import { rotOnS3 } from "./_rot.ts";
import { seededFaultsOnS3 } from "./_seeded.ts";

let server: S3Server;
Deno.test.beforeAll(async () => {
  server = await startMinio();
});
Deno.test.afterAll(async () => await server[Symbol.asyncDispose]());

backendConformance("MinIO", () => emptyS3(server), { network: true });
engineOnS3("MinIO", () => server);
rotOnS3("MinIO", () => server);
if (LONG) {
  const name = `MinIO ${LONG_MARK}`;
  gcModelOnS3(name, () => server);
  seededFaultsOnS3(name, () => server);
  harmedEngineOnS3(name, () => server);
}
