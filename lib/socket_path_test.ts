import { assertEquals } from "@std/assert";
import { MAX_SOCKET_PATH_BYTES_OF, socketStagingOf } from "./socket_path.ts";

Deno.test("the longest socket path leaves room for its staging directory in sun_path", () => {
  const longest = (bytes: number) => socketStagingOf("x".repeat(bytes)).socket.length;
  // With the final NUL: 108 bytes on Linux, 104 on macOS.
  assertEquals([longest(MAX_SOCKET_PATH_BYTES_OF.linux), longest(MAX_SOCKET_PATH_BYTES_OF.darwin)], [107, 103]);
});
