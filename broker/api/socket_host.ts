/**
 * The host of a request over the broker's unix socket: a name that never resolves, so that no page in a browser has it.
 */
export const SOCKET_HOST = "taskd.invalid";

/** What the command line says it is, as `User-Agent`. */
export const COMMAND_LINE = "taskd";
