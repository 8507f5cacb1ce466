/**
 * Property tests, for unit tests beside their sources: the packages of tests are known below tests/ alone.
 */

export { default } from "fast-check";
export * from "fast-check";
