import { assertEquals } from "@std/assert";
import * as sdk from "@aws-sdk/client-s3";
import type { $Command } from "@aws-sdk/client-s3";
import { loadS3Sdk, type S3ClientConfig, type S3Sdk } from "../../lib/packages/s3_sdk.ts";

// The product names no type of the SDK, for the reason that s3_sdk.ts gives: what it writes down is held against the
// SDK here, by the type checker.

type Real = typeof sdk;
type Name = Exclude<keyof S3Sdk, "S3Client">;
type InputOf<C> = C extends new (input: infer I) => unknown ? I : never;
// deno-lint-ignore no-explicit-any -- the SDK's own bounds on these are wider than `unknown` satisfies
type RealOutput<C> = C extends { new (...args: any[]): $Command<any, infer O, any, any, any> } ? O : never;
type OurOutput<C> = C extends new (input: never) => { answer?: infer O } ? O : never;

/** `true` only where the first is assignable to the second. */
type Fits<From, To> = [From] extends [never] ? false : [From] extends [To] ? true : false;

/** What is sent is accepted, and what is read is answered: each `true`, or the file does not check. */
type Compared = {
  [K in Name]: [
    Fits<InputOf<S3Sdk[K]>, ConstructorParameters<Real[K]>[0]>,
    Fits<RealOutput<Real[K]>, OurOutput<S3Sdk[K]>>,
  ];
};

const compared: Compared = {
  HeadObjectCommand: [true, true],
  GetObjectCommand: [true, true],
  PutObjectCommand: [true, true],
  DeleteObjectCommand: [true, true],
  ListObjectsV2Command: [true, true],
  CopyObjectCommand: [true, true],
  CreateMultipartUploadCommand: [true, true],
  UploadPartCommand: [true, true],
  UploadPartCopyCommand: [true, true],
  CompleteMultipartUploadCommand: [true, true],
  AbortMultipartUploadCommand: [true, true],
};
const config: Fits<S3ClientConfig, sdk.S3ClientConfig> = true;

Deno.test("the types of the S3 SDK that are written down are the SDK's own", async () => {
  assertEquals(config, true);
  const loaded = await loadS3Sdk();
  for (const name of Object.keys(compared) as Name[]) {
    assertEquals<unknown>(loaded[name], sdk[name], name);
  }
});
