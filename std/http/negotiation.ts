// @ts-types="./negotiation.d.ts"
export { accepts } from "npm:deno-std@1.4.0/http/negotiation.js";
