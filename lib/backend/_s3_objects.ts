/**
 * The requests that a store makes of an S3 server, one method each, in the terms of
 * this program: keys without the store's prefix, etags without quotes.
 *
 * Every object that is written under a condition carries a random mark in its metadata. It
 * identifies the write that took effect when an answer was lost or a server contradicts itself.
 */

import type { ObjectInfo } from "./backend.ts";
import { destroy, type S3Calls } from "./_s3_calls.ts";
import type { S3Command, S3Sdk } from "../packages/s3_sdk.ts";
import { asFailure, S3Failure } from "./_s3_failure.ts";

/** Metadata that names a conditional write. */
const MARK = "taskd-write";
/** Metadata of a placeholder: the object counts as deleted and is about to be. */
const GONE = "taskd-gone";

export type Condition = "new" | { if_match: string };

export interface S3Head {
  size: number;
  etag: string;
  mark?: string;
  /** When it was written, and the time of the request, both by the server's clock; present for a placeholder. */
  gone?: { since_ms: number; now_ms: number };
}

export interface S3Download {
  /** Of the object as a whole. */
  size: number;
  etag: string;
  /** Where the bytes begin: servers may send more than was asked for. */
  offset: number;
  /** How many come. */
  length: number;
  body: AsyncIterable<Uint8Array>;
}

export interface S3Part {
  PartNumber: number;
  ETag: string;
}

/** `etag` as S3 servers are known to vary it, brought to one form. */
function normalEtag(etag: string | undefined): string {
  const bare = (etag ?? "").trim().replace(/^W\//i, "").replace(/^"(.*)"$/, "$1").toLowerCase();
  if (bare === "") throw new S3Failure("lost", "the server's answer has no etag");
  return bare;
}

function conditionOf(condition: Condition | undefined): { IfNoneMatch?: "*"; IfMatch?: string } {
  if (condition === undefined) return {};
  return condition === "new" ? { IfNoneMatch: "*" } : { IfMatch: `"${condition.if_match}"` };
}

/** Makes the requests of one store. Every method makes one attempt and throws {@linkcode S3Failure}. */
export class S3Objects {
  readonly sdk: S3Sdk;
  readonly calls: S3Calls;
  readonly #bucket: string;
  readonly #prefix: string;

  /** Works on the objects of `bucket` whose keys begin with `prefix`, which is empty or ends in `/`. */
  constructor(sdk: S3Sdk, calls: S3Calls, place: { bucket: string; prefix: string }) {
    this.sdk = sdk;
    this.calls = calls;
    this.#bucket = place.bucket;
    this.#prefix = place.prefix;
  }

  #at(key: string): { Bucket: string; Key: string } {
    return { Bucket: this.#bucket, Key: this.#prefix + key };
  }

  /** Inspects an object; undefined when there is none. */
  async inspect(key: string): Promise<S3Head | undefined> {
    // The answer's date: ages are computed by one clock only, the server's.
    const command = new this.sdk.HeadObjectCommand(this.#at(key));
    let date = "";
    command.middlewareStack.add((next) => async (args) => {
      const result = await next(args);
      date = (result.response as { headers?: Record<string, string> }).headers?.date ?? "";
      return result;
    }, { step: "deserialize", priority: "low", name: "taskdDate" });
    try {
      const head = await this.calls.once(command, this.calls.bufferedMs());
      const mark = head.Metadata?.[MARK];
      const since_ms = head.LastModified?.getTime() ?? Number.NaN;
      return {
        size: head.ContentLength ?? 0,
        etag: normalEtag(head.ETag),
        ...(mark === undefined ? {} : { mark }),
        ...(head.Metadata?.[GONE] === undefined ? {} : { gone: { since_ms, now_ms: Date.parse(date) } }),
      };
    } catch (error) {
      const failure = asFailure(error);
      if (failure.status === 404 && failure.reason !== "NoSuchBucket") return undefined;
      throw failure;
    }
  }

  /** Begins a download, of the bytes from `offset` if that is given; undefined when there is no such object. */
  async open(
    key: string,
    options: { offset?: number; length?: number; if_match?: string } = {},
  ): Promise<S3Download | undefined> {
    const { offset, length, if_match } = options;
    const last = length === undefined ? "" : offset! + length - 1;
    const answer = await this.calls.once(
      new this.sdk.GetObjectCommand({
        ...this.#at(key),
        ...(offset === undefined ? {} : { Range: `bytes=${offset}-${last}` }),
        ...(if_match === undefined ? {} : { IfMatch: `"${if_match}"` }),
      }),
    );
    const { ContentLength, ContentRange, Body } = answer;
    if (answer.Metadata?.[GONE] !== undefined) {
      destroy(Body);
      return undefined;
    }
    const range = /^bytes (\d+)-\d+\/(\d+)$/.exec(ContentRange ?? "");
    if (Body === undefined || ContentLength === undefined || (ContentRange && !range)) {
      destroy(Body);
      throw new S3Failure("lost", "the server's answer does not say how long it is");
    }
    return {
      size: range ? Number(range[2]) : ContentLength,
      etag: normalEtag(answer.ETag),
      offset: range ? Number(range[1]) : 0,
      length: ContentLength,
      body: Body as AsyncIterable<Uint8Array>,
    };
  }

  /** Writes an object in one request; returns its etag. */
  async write(
    key: string,
    bytes: Uint8Array,
    options: { condition?: Condition; mark?: string; gone?: boolean } = {},
  ): Promise<string> {
    const command = new this.sdk.PutObjectCommand({
      ...this.#at(key),
      ...conditionOf(options.condition),
      Body: bytes,
      ContentLength: bytes.length,
      Metadata: metadataOf(options),
    });
    return normalEtag((await this.calls.once(command, this.calls.bufferedMs(bytes.length))).ETag);
  }

  /** Deletes an object; most servers do not tell whether there was one. */
  async remove(key: string): Promise<void> {
    await this.calls.once(new this.sdk.DeleteObjectCommand(this.#at(key)), this.calls.bufferedMs());
  }

  async page(prefix: string, token?: string): Promise<{ objects: ObjectInfo[]; next?: string }> {
    const command = new this.sdk.ListObjectsV2Command({
      Bucket: this.#bucket,
      Prefix: this.#prefix + prefix,
      ...(token === undefined ? {} : { ContinuationToken: token }),
    });
    const answer = await this.calls.once(command, this.calls.bufferedMs());
    const objects = (answer.Contents ?? []).flatMap(({ Key, Size }) =>
      Key === undefined ? [] : [{ key: Key.slice(this.#prefix.length), size: Size ?? 0 }]
    );
    const next = answer.IsTruncated ? answer.NextContinuationToken : undefined;
    if (answer.IsTruncated && next === undefined) {
      throw new S3Failure("lost", "the server's listing ends in the middle");
    }
    return { objects, ...(next === undefined ? {} : { next }) };
  }

  #source(key: string): string {
    return `${this.#bucket}/${this.#prefix}${key}`.split("/").map(encodeURIComponent).join("/");
  }

  /** Copies an object of `size` bytes within the server, in one request. */
  async copy(from: string, to: string, source: { etag: string; size: number }): Promise<void> {
    const command = new this.sdk.CopyObjectCommand({
      ...this.#at(to),
      CopySource: this.#source(from),
      CopySourceIfMatch: `"${source.etag}"`,
    });
    normalEtag((await this.calls.once(command, this.calls.bufferedMs(source.size))).CopyObjectResult?.ETag);
  }

  async begin(key: string, mark: string): Promise<string> {
    const command = new this.sdk.CreateMultipartUploadCommand({ ...this.#at(key), Metadata: { [MARK]: mark } });
    const { UploadId } = await this.#part(command);
    if (UploadId === undefined) throw new S3Failure("lost", "the server's answer has no upload id");
    return UploadId;
  }

  /** Uploads a part; the first is 1. */
  async uploadPart(key: string, upload: string, number: number, bytes: Uint8Array): Promise<S3Part> {
    const command = new this.sdk.UploadPartCommand({
      ...this.#at(key),
      UploadId: upload,
      PartNumber: number,
      Body: bytes,
      ContentLength: bytes.length,
    });
    return { PartNumber: number, ETag: `"${normalEtag((await this.#part(command)).ETag)}"` };
  }

  /** Makes a part of the bytes [first..last] of another object. */
  async copyPart(
    key: string,
    upload: string,
    number: number,
    source: { key: string; etag: string; first: number; last: number },
  ): Promise<S3Part> {
    const command = new this.sdk.UploadPartCopyCommand({
      ...this.#at(key),
      UploadId: upload,
      PartNumber: number,
      CopySource: this.#source(source.key),
      CopySourceIfMatch: `"${source.etag}"`,
      CopySourceRange: `bytes=${source.first}-${source.last}`,
    });
    return { PartNumber: number, ETag: `"${normalEtag((await this.#part(command)).CopyPartResult?.ETag)}"` };
  }

  /** Makes an object of the parts; returns its etag. */
  async complete(key: string, upload: string, parts: S3Part[]): Promise<string> {
    const command = new this.sdk.CompleteMultipartUploadCommand({
      ...this.#at(key),
      UploadId: upload,
      MultipartUpload: { Parts: parts },
    });
    return normalEtag((await this.#part(command)).ETag);
  }

  async abandon(key: string, upload: string): Promise<void> {
    await this.#part(new this.sdk.AbortMultipartUploadCommand({ ...this.#at(key), UploadId: upload }));
  }

  #part<O extends object>(command: S3Command<O>): Promise<O> {
    return this.calls.once(command, this.calls.deadlines.part_ms);
  }
}

function metadataOf({ mark, gone }: { mark?: string; gone?: boolean }): Record<string, string> {
  return { ...(mark === undefined ? {} : { [MARK]: mark }), ...(gone ? { [GONE]: "1" } : {}) };
}
