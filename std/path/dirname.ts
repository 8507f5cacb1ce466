// @ts-types="./dirname.d.ts"
export { dirname } from "npm:deno-std@1.4.0/path/dirname.js";
