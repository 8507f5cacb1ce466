/**
 * What kind of content begins with given bytes: for files that a diff does not show.
 */

/** The first bytes of what is often committed, one character per byte; of RFCs and the formats' own pages. */
const MAGIC: readonly (readonly [string | RegExp, string])[] = [
  ["\x89PNG\r\n", "PNG image"],
  ["\xff\xd8\xff", "JPEG image"],
  ["GIF8", "GIF image"],
  [/^RIFF....WEBP/s, "WebP image"],
  ["\0\0\x01\0", "icon"],
  ["%PDF-", "PDF document"],
  ["PK\x03\x04", "ZIP archive (also jar, whl, docx)"],
  ["\x1f\x8b", "gzip archive"],
  ["BZh", "bzip2 archive"],
  ["\xfd7zXZ\0", "xz archive"],
  ["\x28\xb5\x2f\xfd", "zstd archive"],
  ["7z\xbc\xaf", "7z archive"],
  [/^.{257}ustar/s, "tar archive"],
  // deno-lint-ignore no-control-regex
  [/^\x7fELF.{12}\x04/s, "ELF core dump"],
  ["\x7fELF", "ELF program"],
  ["MZ", "Windows program"],
  [/^(?:\xfe\xed\xfa[\xce\xcf]|[\xce\xcf]\xfa\xed\xfe)/, "macOS program"],
  ["\xca\xfe\xba\xbe", "Java class or macOS program"],
  ["\0asm", "WebAssembly program"],
  ["!<arch>\n", "library or Debian package"],
  ["dex\n", "Android program"],
  ["SQLite format 3\0", "SQLite database"],
  [/^wOF[F2]/, "font"],
  ["\0\x01\0\0", "font"],
  ["OTTO", "font"],
  [/^(?:ID3|OggS|fLaC)/, "sound"],
  [/^.{4}ftyp/s, "video"],
];

/** In words; `head` has one character per byte. */
export function contentKind(head: string): string {
  const known = MAGIC.find(([magic]) => typeof magic === "string" ? head.startsWith(magic) : magic.test(head));
  if (known !== undefined) return known[1];
  return head.includes("\0") ? "unknown binary content" : "text";
}
