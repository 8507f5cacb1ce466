/**
 * The ports of `gateway_ip` that sandboxes reach. The contract and the sandbox images name them.
 */

/** The gateway to the models' APIs. */
export const GATEWAY_PORT = 8088;
/** The egress proxy. */
export const PROXY_PORT = 3128;
