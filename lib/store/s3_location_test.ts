import { assertEquals, assertNotEquals, assertThrows } from "@std/assert";
import { TaskdError } from "../errors.ts";
import { openStore } from "./open.ts";
import { defaultWorkspace, isS3Location, parseS3Location } from "./s3_location.ts";
import { longTest } from "../../tests/support/long.ts";

Deno.test("parseS3Location() reads bucket and prefix", () => {
  const table: [string, string, string][] = [
    ["s3://bucket", "bucket", ""],
    ["s3://bucket/", "bucket", ""],
    ["s3://my-bucket.eu/a/b_c/", "my-bucket.eu", "a/b_c"],
    ["S3://bucket/a", "bucket", "a"],
  ];
  for (const [location, bucket, prefix] of table) {
    const parsed = parseS3Location(location);
    assertEquals([parsed.bucket, parsed.prefix, isS3Location(location)], [bucket, prefix, true]);
  }
});

Deno.test("parseS3Location() refuses what is no bucket and prefix", () => {
  for (const location of ["s3://", "s3:///a", "s3://b//a", "s3://b/a b", "s3://user:secret@b/a", "s3://b/a?x=1"]) {
    const { message } = assertThrows(() => parseS3Location(location), TaskdError, "Cannot open");
    assertEquals(message.includes("secret"), false);
  }
});

Deno.test("a workspace belongs to one location at one endpoint", () => {
  const home = "/home/me";
  const workspace = defaultWorkspace("s3://bucket/a", { home });
  assertEquals(/^\/home\/me\/\.taskd\/workspaces\/[0-9a-f]{16}$/.test(workspace), true);
  assertEquals(defaultWorkspace("s3://bucket/a/", { home }), workspace);
  assertNotEquals(defaultWorkspace("s3://bucket/b", { home }), workspace);
  assertNotEquals(defaultWorkspace("s3://bucket/a", { home, endpoint: "http://127.0.0.1:9000" }), workspace);
});

longTest("openStore() says what is wrong with a bucket that cannot be reached", async () => {
  const workspace = await Deno.makeTempDir();
  const credentials = { access_key_id: "a", secret_access_key: "b" };
  const s3 = { endpoint: "http://127.0.0.1:1", credentials };
  const error = await openStore("s3://bucket/a", { workspace, s3 }).catch((error) => error);
  await Deno.remove(workspace, { recursive: true });
  assertEquals([error instanceof TaskdError, error.code], [true, "unavailable"]);
  assertEquals(error.hint, "Check the endpoint and the network, then try again");
});
