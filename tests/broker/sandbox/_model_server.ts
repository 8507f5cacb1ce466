/**
 * The scripted model of the sandbox's tests.
 */

export { type Asked, ModelServer, type Scripted } from "../../support/model_server.ts";
