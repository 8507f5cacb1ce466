/**
 * The oldest git that the project works with.
 */

/** The first to know GIT_CONFIG_GLOBAL: an older one would read the operator's settings wherever it has credentials. */
export const MIN_GIT_VERSION = [2, 32] as const;
export const INSTALL_GIT = `Install git ${MIN_GIT_VERSION.join(".")} or newer`;
