import { assertEquals } from "@std/assert";
import { COMMANDS } from "../table/commands.ts";
import { completions } from "./completion.ts";

/** First words, in the order of the table. */
const FIRST_WORDS = [...new Set(COMMANDS.map(({ name }) => name.split(" ")[0]!))];

/** What is offered that begins as the last word does. */
function offered(...words: string[]): string[] {
  const current = words.at(-1)!.replace(/^-[^=]*=/, "").replace(/^-(?!-)/, "--");
  return completions("bash", words).filter((word) => word.startsWith(":") || word.startsWith(current));
}

Deno.test("completions are commands, their second words, flags and what these take", () => {
  assertEquals(offered("fo"), ["fork"]);
  assertEquals(offered("session", "f"), ["flush"]);
  assertEquals(offered("session", "open", "--js"), ["--json"]);
  assertEquals(offered("fork", "shop", "try", "--t"), ["--ttl"]);
  assertEquals(offered("fork", "shop", "try", "-t"), ["--ttl"]);
  assertEquals(offered("rollback", "--no"), ["--no-safety"]);
  assertEquals(offered("completion", "z"), ["zsh"]);
  assertEquals(offered("queue", "c"), ["cancel"]);
  assertEquals(offered("submit", "--agent", "co"), ["codex"]);
  assertEquals(offered("submit", "--agent=co"), ["codex"]);
  assertEquals(offered("submit", "--agent", "=", "co"), ["codex"]);
  assertEquals(offered("submit", "repo", "--database", "a", "--datab"), ["--database"]);
  assertEquals(offered("tasks", "--stage", "awaiting_a"), ["awaiting_approval"]);
  assertEquals(offered("setup", "--from", "deb"), ["debootstrap"]);
  assertEquals(offered("gc", "--hel"), ["--help"]);
  assertEquals(offered("--js"), ["--json"]);
  assertEquals(offered(""), FIRST_WORDS);
  assertEquals(offered("nothing", ""), []);
});

Deno.test("help is completed with the names of commands", () => {
  assertEquals(offered("help", ""), FIRST_WORDS);
  assertEquals(offered("help", "session", "f"), ["flush"]);
  assertEquals(offered("help", "fork", ""), []);
  assertEquals(offered("help", "--al"), ["--all"]);
});

Deno.test("flags before the command do not count as its words", () => {
  for (
    const store of [["-store", "elsewhere"], ["--store", "=", "elsewhere"], ["--store=elsewhere"], ["--ttl", "1h"]]
  ) {
    assertEquals(offered(...store, "fo"), ["fork"]);
  }
});

Deno.test("paths are offered where a path may stand, and nowhere else", () => {
  for (const words of ["create shop --from a", "create shop --from = a", "export shop a", "submit a", "--store a"]) {
    assertEquals(offered(...words.split(" ")), [":paths"], words);
  }
  for (const words of [["fork", "shop", ""], ["export", "a"], ["submit", "repo", "a"], ["fork", "--ttl", ""]]) {
    assertEquals(offered(...words), []);
  }
});

Deno.test("each shell gets the words with their meanings, as it reads them", () => {
  assertEquals(
    completions("zsh", ["session", ""]).at(0),
    "open:Open a live session and print the path of its database file",
  );
  assertEquals(
    completions("zsh", ["fork", "--"]).find((line) => line.startsWith("--at:"))?.includes("txid\\:41"),
    true,
  );
  assertEquals(completions("fish", ["session", ""]).at(1), "flush\tMake a live session durable now");
  assertEquals(completions("fish", ["submit", "--agent=co"]).at(0), "--agent=agent_a\t");
});
