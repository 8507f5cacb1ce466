import { assertEquals, assertStringIncludes } from "@std/assert";
import { S3_ENV, S3_SYS, s3Read } from "../../lib/backend/s3_permissions.ts";
import { startVersitygw } from "../support/second_s3.ts";
import { backendOptions, type S3Server } from "../support/s3_server.ts";

let server: S3Server;
Deno.test.beforeAll(async () => {
  server = await startVersitygw();
});
Deno.test.afterAll(async () => await server[Symbol.asyncDispose]());

const PROGRAM = new URL("./_write_one.ts", import.meta.url).pathname;

/** Runs a program that writes an object, with nothing allowed but what is named here. */
async function run(options: { env: Record<string, string>; flags?: string[] }): Promise<string> {
  const { credentials: _, ...place } = backendOptions(server, "permissions");
  const home = await Deno.makeTempDir();
  try {
    const { stdout, stderr } = await new Deno.Command(Deno.execPath(), {
      args: [
        "run",
        "--no-prompt",
        `--allow-net=${new URL(server.endpoint).host}`,
        ...(options.flags ?? [
          `--allow-env=${S3_ENV.join(",")}`,
          `--allow-sys=${S3_SYS.join(",")}`,
          `--allow-read=${s3Read(home).join(",")}`,
        ]),
        PROGRAM,
        JSON.stringify(place),
      ],
      clearEnv: true,
      env: { HOME: home, DENO_DIR: await denoDirectory(), NO_COLOR: "1", ...options.env },
      stdin: "null",
    }).output();
    return new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr);
  } finally {
    await Deno.remove(home, { recursive: true });
  }
}

/** Where packages are, so that the child does not fetch them anew. */
async function denoDirectory(): Promise<string> {
  const { stdout } = await new Deno.Command(Deno.execPath(), { args: ["info", "--json"] }).output();
  return JSON.parse(new TextDecoder().decode(stdout)).denoDir;
}

Deno.test("a bucket store needs exactly the permissions of the table", async () => {
  const { access_key_id, secret_access_key } = server.credentials;
  const env = { AWS_ACCESS_KEY_ID: access_key_id, AWS_SECRET_ACCESS_KEY: secret_access_key };
  assertEquals(await run({ env }), "written\n");
  for (const flags of [[`--allow-env=${S3_ENV.join(",")}`], [`--allow-sys=${S3_SYS.join(",")}`]]) {
    assertStringIncludes(await run({ env, flags }), "Requires");
  }
});

Deno.test("without credentials the message says so", async () => {
  const env = { AWS_EC2_METADATA_DISABLED: "true" };
  assertStringIncludes(await run({ env }), "no credentials were found");
});
