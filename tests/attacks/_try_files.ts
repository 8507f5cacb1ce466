/** A program: tries the promise about files under the umask that its caller sets, and prints the result. */

import { tryThem, unheld } from "./_context.ts";

const tried = await tryThem(["files"]);
console.log(JSON.stringify({ umask: Deno.umask(), tried: tried.length, unheld: unheld(tried) }));
