import { assertEquals } from "@std/assert";
import { HeadObjectCommand, S3Client } from "@aws-sdk/client-s3";
import { type S3Access, s3Access, s3Host, type S3Reach } from "../../lib/backend/s3_permissions.ts";

/** Where the SDK itself would send a request: it is stopped just before. */
async function hostOfSdk(reach: S3Reach): Promise<string> {
  const { endpoint, region = "us-east-1", path_style = endpoint !== undefined } = reach;
  const client = new S3Client({
    region,
    forcePathStyle: path_style,
    credentials: { accessKeyId: "id", secretAccessKey: "secret" },
    ...(endpoint === undefined ? {} : { endpoint }),
  });
  const command = new HeadObjectCommand({ Bucket: reach.bucket, Key: "k" });
  let host = "";
  command.middlewareStack.add(() => ({ request }) => {
    const { protocol, hostname, port } = request as { protocol: string; hostname: string; port?: number };
    host = `${hostname}:${port ?? (protocol === "http:" ? 80 : 443)}`;
    throw new Error("far enough");
  }, { step: "finalizeRequest", priority: "low" });
  await client.send(command).catch(() => {});
  client.destroy();
  return host;
}

Deno.test("s3Host() names the one host that the SDK asks, for every kind of place", async () => {
  const regions = ["us-east-1", "eu-central-1", "cn-north-1", "us-gov-west-1", "us-iso-east-1", "us-isob-east-1"];
  regions.push("us-isof-south-1", "eu-isoe-west-1", "eusc-de-east-1");
  const endpoints = [
    "http://127.0.0.1:9000",
    "http://[::1]:9000",
    "https://minio.example/base",
    "http://minio.example",
  ];
  const places: Omit<S3Reach, "bucket">[] = [{}, ...regions.map((region) => ({ region }))];
  places.push(...endpoints.map((endpoint) => ({ endpoint })));
  for (const place of places) {
    for (const bucket of ["bucket", "my.bucket"]) {
      for (const path_style of [undefined, true, false]) {
        const reach = { bucket, ...place, ...(path_style === undefined ? {} : { path_style }) };
        assertEquals(s3Host(reach), await hostOfSdk(reach), JSON.stringify(reach));
      }
    }
  }
});

Deno.test("s3Access() adds who hands out credentials only where the environment holds none", () => {
  const access = (env: Record<string, string>): S3Access =>
    s3Access({ bucket: "b", region: "eu-west-1" }, { home: "/home/ada", env: (name) => env[name] });
  const own = "b.s3.eu-west-1.amazonaws.com:443";
  assertEquals(access({ AWS_ACCESS_KEY_ID: "id" }).net, [own]);
  assertEquals(access({}).net, [own, "169.254.169.254:80"]);
  assertEquals(access({ AWS_EC2_METADATA_DISABLED: "true" }).net, [own]);
  assertEquals(access({ AWS_CONTAINER_CREDENTIALS_RELATIVE_URI: "/x" }).net, [own, "169.254.170.2:80"]);
  const pod = access({
    AWS_CONTAINER_CREDENTIALS_FULL_URI: "http://169.254.170.23/v1/credentials",
    AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE: "/run/token",
  });
  assertEquals(pod.net, [own, "169.254.170.23:80"]);
  assertEquals(pod.read, ["/home/ada/.aws/config", "/home/ada/.aws/credentials", "/run/token"]);
  const web = access({ AWS_WEB_IDENTITY_TOKEN_FILE: "/run/web", AWS_EC2_METADATA_DISABLED: "true" });
  assertEquals([web.net, web.read.at(-1)], [[own, "sts.eu-west-1.amazonaws.com:443"], "/run/web"]);
  assertEquals(access({ AWS_CONFIG_FILE: "/etc/aws" }).read.at(-1), "/etc/aws");
});
