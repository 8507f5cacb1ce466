/**
 * What a request over the broker's unix socket has as its host.
 */

/** A name that never resolves, so that no page in a browser can have it. */
export const SOCKET_HOST = "taskd.invalid";
