import { backendConformance } from "../support/backend_conformance.ts";
import { startVersitygw } from "../support/second_s3.ts";
import { emptyS3, type S3Server } from "../support/s3_server.ts";
import { engineOnS3 } from "./_engine.ts";
import { gcModelOnS3 } from "./_gc_model.ts";
import { harmedEngineOnS3 } from "./_harmed.ts";
import { seededFaultsOnS3 } from "./_seeded.ts";

let server: S3Server;
Deno.test.beforeAll(async () => {
  server = await startVersitygw();
});
Deno.test.afterAll(async () => await server[Symbol.asyncDispose]());

backendConformance("versitygw", () => emptyS3(server));
engineOnS3("versitygw", () => server);
gcModelOnS3("versitygw", () => server);
seededFaultsOnS3("versitygw", () => server);
harmedEngineOnS3("versitygw", () => server);
