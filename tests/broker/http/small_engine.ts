/**
 * The engine in memory behind the tests of the listeners, for tests of other folders that stand on the same listeners.
 *
 * @module
 */

export { SmallEngine } from "./_broker.ts";
