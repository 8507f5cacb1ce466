/**
 * An S3 store behind a proxy whose faults a test chooses.
 */

import { BackendError } from "../../lib/backend/backend.ts";
import { S3Backend, type S3BackendOptions } from "../../lib/backend/s3.ts";
import { FaultProxy, type ProxiedRequest, type ProxyFault } from "../support/fault_proxy.ts";
import { backendOptions, emptyS3, type S3Server } from "../support/s3_server.ts";

/** A backend behind a proxy, and the same place without one. */
export interface Proxied extends AsyncDisposable {
  backend: S3Backend;
  direct: S3Backend;
  proxy: FaultProxy;
  /** Lets each fault befall one request that `which` accepts, in order. Returns how many are left. */
  script(which: (request: ProxiedRequest) => boolean, ...faults: ProxyFault[]): () => number;
}

/** Opens an empty place of `at` behind a proxy. */
export async function proxied(at: S3Server, options: Partial<S3BackendOptions> = {}): Promise<Proxied> {
  const inner = await emptyS3(at);
  const proxy = new FaultProxy(at.endpoint);
  const place = { ...at, endpoint: proxy.endpoint };
  const backend = await S3Backend.open({ ...backendOptions(place, inner.prefix), ...options });
  return {
    backend,
    direct: inner.backend,
    proxy,
    script: (which, ...faults) => {
      proxy.plan = (request) => which(request) ? faults.shift() : undefined;
      return () => faults.length;
    },
    [Symbol.asyncDispose]: async () => {
      backend.close();
      await proxy[Symbol.asyncDispose]();
      await inner[Symbol.asyncDispose]();
    },
  };
}

/** Result of a call: `done` or the code of its error. */
export async function codeOf(promise: Promise<unknown>): Promise<string> {
  return await promise.then(() => "done", (error) => error instanceof BackendError ? error.code : String(error));
}
