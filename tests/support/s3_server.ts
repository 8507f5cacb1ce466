/**
 * A real S3 server for tests: on the loopback interface, with its data in a temporary
 * directory, and gone with the test process however that ends.
 */

import { CreateBucketCommand, S3Client } from "@aws-sdk/client-s3";
import { S3Backend, type S3BackendOptions, type S3Credentials } from "../../lib/backend/s3.ts";

/** Where a server is and who may use it. */
export interface S3Place {
  /** `http://127.0.0.1:12345`; absent for AWS. */
  endpoint?: string;
  /** A bucket that exists. */
  bucket: string;
  /** Who may use it; absent where the SDK's chain decides. */
  credentials?: S3Credentials;
  /** Its region; default that of the backend. */
  region?: string;
}

/** A running server; disposing of it kills it and removes its data. */
export interface S3Server extends AsyncDisposable, S3Place {
  /** Where it listens. */
  endpoint: string;
  /** Who may use it. */
  credentials: S3Credentials;
  /** Its process, so that a test can stop it. */
  pid: number;
}

/** How a server is started. */
export interface S3Start {
  /** Its binary. */
  command: string;
  /** Its arguments, given its address and an empty directory of its own. */
  args: (address: string, directory: string) => string[];
  /** Its environment, with the credentials. */
  env: (credentials: S3Credentials) => Record<string, string>;
}

const BUCKET = "taskd-tests";
const START_ATTEMPTS = 3;
const READY_ATTEMPTS = 200;
const READY_EVERY_MS = 50;

/** Starts a server with one empty bucket. */
export async function startS3(start: S3Start): Promise<S3Server> {
  for (let attempt = 1;; attempt++) {
    try {
      return await startOnce(start);
    } catch (error) {
      // Another process may have taken the port.
      if (attempt === START_ATTEMPTS) throw error;
    }
  }
}

async function startOnce({ command, args, env }: S3Start): Promise<S3Server> {
  const directory = await Deno.makeTempDir({ prefix: "s3-" });
  const credentials = { access_key_id: "taskd-tester", secret_access_key: crypto.randomUUID() };
  const address = `127.0.0.1:${freePort()}`;
  // Where the kernel can, it kills the server when the test process dies.
  const words = Deno.build.os === "linux"
    ? ["setpriv", "--pdeathsig", "KILL", "--", command, ...args(address, directory)]
    : [command, ...args(address, directory)];
  const child = new Deno.Command(words[0]!, {
    args: words.slice(1),
    env: env(credentials),
    stdin: "null",
    stdout: "null",
    stderr: "null",
  }).spawn();
  const stop = async () => {
    try {
      child.kill("SIGKILL");
    } catch {
      // It has ended already.
    }
    await child.status;
    await Deno.remove(directory, { recursive: true });
  };
  const place = { endpoint: `http://${address}`, bucket: BUCKET, credentials };
  try {
    await Promise.race([ready(place), child.status.then(({ code }) => Promise.reject(new Error(`it ended: ${code}`)))]);
  } catch (error) {
    await stop();
    throw new Error(`Cannot start ${command}: ${(error as Error).message}`, { cause: error });
  }
  return { ...place, pid: child.pid, [Symbol.asyncDispose]: stop };
}

function freePort(): number {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  return listener.addr.port;
}

/** Asks for the bucket until the server makes it. */
async function ready({ endpoint, bucket, credentials }: Omit<S3Server, "pid" | typeof Symbol.asyncDispose>) {
  const client = new S3Client({
    endpoint,
    region: "us-east-1",
    forcePathStyle: true,
    maxAttempts: 1,
    credentials: { accessKeyId: credentials.access_key_id, secretAccessKey: credentials.secret_access_key },
  });
  try {
    for (let attempt = 1;; attempt++) {
      try {
        await client.send(new CreateBucketCommand({ Bucket: bucket }));
        return;
      } catch (error) {
        if (attempt === READY_ATTEMPTS) throw error;
      }
      await new Promise((resolve) => setTimeout(resolve, READY_EVERY_MS));
    }
  } finally {
    client.destroy();
  }
}

/** What opens a store below `prefix` in a server's bucket. */
export function backendOptions(place: S3Place, prefix: string): S3BackendOptions {
  const { endpoint, bucket, credentials, region } = place;
  return {
    bucket,
    prefix,
    ...(endpoint === undefined ? {} : { endpoint }),
    ...(credentials === undefined ? {} : { credentials }),
    ...(region === undefined ? {} : { region }),
  };
}

/** A backend on an empty prefix of its own; disposing of it removes what is there. */
export async function emptyS3(
  place: S3Place,
  options: Partial<S3BackendOptions> = {},
): Promise<AsyncDisposable & { backend: S3Backend; prefix: string }> {
  const prefix = `t-${crypto.randomUUID()}`;
  const backend = await S3Backend.open({ ...backendOptions(place, prefix), ...options });
  return {
    backend,
    prefix,
    [Symbol.asyncDispose]: async () => {
      const keys: string[] = [];
      for await (const { key } of backend.list("")) keys.push(key);
      for (let at = 0; at < keys.length; at += 16) {
        // A listing also shows the place-holders that a deletion which was cut off leaves.
        await Promise.allSettled(keys.slice(at, at + 16).map((key) => backend.delete(key)));
      }
      backend.close();
    },
  };
}
