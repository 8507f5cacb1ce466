// @ts-types="./prompt_secret.d.ts"
export { promptSecret } from "npm:deno-std@1.4.0/cli/prompt_secret.js";
