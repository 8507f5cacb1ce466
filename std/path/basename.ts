// @ts-types="./basename.d.ts"
export { basename } from "npm:deno-std@1.4.0/path/basename.js";
