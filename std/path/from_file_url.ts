// @ts-types="./from_file_url.d.ts"
export { fromFileUrl } from "npm:deno-std@1.4.0/path/from_file_url.js";
