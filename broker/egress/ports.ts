/**
 * The ports of `gateway_ip` that sandboxes reach. The contract and the sandbox images name them.
 */

export const GATEWAY_PORT = 8088;
export const PROXY_PORT = 3128;
