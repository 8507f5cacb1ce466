/**
 * The SDK of S3, pinned, and loaded with the first store that is in a bucket.
 *
 * The runtime fetches every package that a literal `import()` or a type names: `deno install` resolves types as well.
 * This one has some forty packages, so its name is computed, and what is used of it is written down here;
 * tests/s3/sdk_test.ts compares that with the SDK's own types. `deno task compile` includes it by name.
 */

export const S3_SDK: string = "npm:@aws-sdk/client-s3@3.1169.0";

export interface S3ClientConfig {
  region: string;
  endpoint?: string;
  forcePathStyle: boolean;
  credentials?: { accessKeyId: string; secretAccessKey: string; sessionToken?: string };
  maxAttempts: number;
  /** Times in milliseconds; 0 is none. */
  requestHandler: { httpAgent: S3Agent; httpsAgent: S3Agent; socketTimeout: number; requestTimeout: number };
  expectContinueHeader: boolean;
  requestChecksumCalculation: "WHEN_REQUIRED";
  responseChecksumValidation: "WHEN_REQUIRED";
}

export interface S3Agent {
  keepAlive: boolean;
  maxSockets: number;
}

/** A step of a command between the call and the socket. */
export type S3Handler = (args: { input: object; request: unknown }) => Promise<{ response: unknown }>;

/** Any command of the SDK; `O` is its answer. */
export interface S3Command<O extends object> {
  readonly middlewareStack: {
    add(
      middleware: (next: S3Handler) => S3Handler,
      options: { step: "deserialize"; priority: "low"; name: string; override?: boolean },
    ): void;
  };
  /** Only for the type: no command has it. */
  readonly answer?: O;
}

export interface S3Client {
  send<O extends object>(command: S3Command<O>, options: { abortSignal: AbortSignal }): Promise<O>;
  destroy(): void;
}

type Command<I, O extends object> = new (input: I) => S3Command<O>;

interface At {
  Bucket: string;
  Key: string;
}
type Upload = At & { UploadId: string };
type Metadata = { Metadata?: Record<string, string> | undefined };
type Size = { ContentLength?: number | undefined };
type Tag = { ETag?: string | undefined };
type Conditions = { IfNoneMatch?: "*"; IfMatch?: string };
type Source = { CopySource: string; CopySourceIfMatch: string };
type Bytes = { Body: Uint8Array; ContentLength: number };
type Range = { Range?: string };
type Found = Metadata & Size & Tag;

export interface S3Sdk {
  S3Client: new (config: S3ClientConfig) => S3Client;
  HeadObjectCommand: Command<At, Found & { LastModified?: Date | undefined }>;
  GetObjectCommand: Command<
    At & Range & { IfMatch?: string },
    Found & { ContentRange?: string | undefined; Body?: unknown }
  >;
  PutObjectCommand: Command<At & Conditions & Bytes & { Metadata: Record<string, string> }, Tag>;
  DeleteObjectCommand: Command<At & { IfMatch?: string }, object>;
  ListObjectsV2Command: Command<
    { Bucket: string; Prefix: string; ContinuationToken?: string },
    {
      Contents?: { Key?: string | undefined; Size?: number | undefined }[] | undefined;
      IsTruncated?: boolean | undefined;
      NextContinuationToken?: string | undefined;
    }
  >;
  CopyObjectCommand: Command<At & Source, { CopyObjectResult?: Tag | undefined }>;
  CreateMultipartUploadCommand: Command<
    At & { Metadata: Record<string, string> },
    { UploadId?: string | undefined }
  >;
  UploadPartCommand: Command<Upload & Bytes & { PartNumber: number }, Tag>;
  UploadPartCopyCommand: Command<
    Upload & Source & { PartNumber: number; CopySourceRange: string },
    { CopyPartResult?: Tag | undefined }
  >;
  CompleteMultipartUploadCommand: Command<
    Upload & Conditions & { MultipartUpload: { Parts: { PartNumber: number; ETag: string }[] } },
    Tag
  >;
  AbortMultipartUploadCommand: Command<Upload, object>;
}

/** Loads the SDK; the first time it may have to be downloaded. */
export function loadS3Sdk(): Promise<S3Sdk> {
  return import(S3_SDK);
}
