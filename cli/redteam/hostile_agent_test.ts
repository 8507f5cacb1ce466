import { assertEquals } from "@std/assert";
import { isRefusal } from "./hostile_agent.ts";

Deno.test("only what the embedded sandbox refuses counts as a refused attempt", () => {
  const table: [error: unknown, is_refusal: boolean][] = [
    [new Deno.errors.NotCapable('Requires read access to "/x"'), true],
    [new Deno.errors.NotFound("No such file or directory"), true],
    [new TypeError('Requires import access to "127.0.0.1:1"'), true],
    [new TypeError("npm specifiers were requested; but --no-npm is specified"), true],
    [new TypeError('npm package not found in cache: "left-pad", --cached-only is specified.'), true],
    [new Deno.errors.NotADirectory("Not a directory (os error 20)"), true],
    [new Error("disk I/O error"), true],
    [new Error("database or disk is full"), true],
    [new Error("too many attached databases - max 0"), true],
    [new Error("no such table: t"), false],
    [new Error("getaddrinfo EPERM secret.example.com"), true],
    [new ReferenceError("connect is not defined"), false],
    [new TypeError("Deno.connekt is not a function"), false],
    [new Deno.errors.ConnectionRefused("connection refused"), false],
    ["text", false],
  ];
  for (const [error, expected] of table) assertEquals(isRefusal(error), expected, String(error));
});
