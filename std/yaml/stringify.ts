// @ts-types="./stringify.d.ts"
export { stringify } from "npm:deno-std@1.4.0/yaml/stringify.js";
