import { backendConformance } from "../support/backend_conformance.ts";
import { startMinio } from "../support/minio.ts";
import { emptyS3, type S3Server } from "../support/s3_server.ts";
import { engineOnS3 } from "./_engine.ts";
import { gcModelOnS3 } from "./_gc_model.ts";
import { harmedEngineOnS3 } from "./_harmed.ts";
import { seededFaultsOnS3 } from "./_seeded.ts";

let server: S3Server;
Deno.test.beforeAll(async () => {
  server = await startMinio();
});
Deno.test.afterAll(async () => await server[Symbol.asyncDispose]());

backendConformance("MinIO", () => emptyS3(server));
engineOnS3("MinIO", () => server);
gcModelOnS3("MinIO", () => server);
seededFaultsOnS3("MinIO", () => server);
harmedEngineOnS3("MinIO", () => server);
