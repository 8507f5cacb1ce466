/** A session of the broker's web pages, begun as a browser does. */

/** The code in an address of the web pages; empty when it has none. */
export function codeOf(address: string): string {
  return /^#code=([0-9a-f]{64})$/.exec(new URL(address).hash)?.[1] ?? "";
}

/** Begins a session with an address that was not opened yet. Returns its token, or an empty text when that is refused. */
export async function beginSession(address: string): Promise<string> {
  const headers = { authorization: `Bearer ${codeOf(address)}` };
  const answer = await fetch(new URL("/session", address), { method: "POST", headers });
  if (answer.ok) return (await answer.json()).token;
  await answer.body?.cancel();
  return "";
}
