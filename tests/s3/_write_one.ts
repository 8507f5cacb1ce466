/**
 * Writes one object into the store that its argument names: a process whose
 * permissions a test chooses.
 */

import { S3Backend } from "../../lib/backend/s3.ts";

const backend = await S3Backend.open(JSON.parse(Deno.args[0]!));
await backend.put("k", new Uint8Array(1));
console.log("written");
