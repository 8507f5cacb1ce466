/**
 * The session of this tab: begun with the one-time code of the address, which leaves the address at once, and kept as a
 * token in the storage of the tab, so that a reload goes on with it. No cookie has it: those of 127.0.0.1 go to every
 * port of it, and so to servers of other users.
 */

import { type Api, ApiError } from "./api.ts";
import { browser, el, type PageElement } from "./dom.ts";
import { notice } from "./page.ts";

const KEY = "taskd.session";

/** Takes `#code=...` out of the address, where it would be copied along. */
export function takeCode(): string | undefined {
  const { hash, pathname } = browser.location;
  const code = /^#code=([0-9a-f]{64})$/.exec(hash)?.[1];
  if (hash !== "") browser.history.replaceState(null, "", pathname);
  return code;
}

/** Gives `api` the token of a new session, or of the one that the tab has. False when there is none. */
export async function enterSession(api: Api, code: string | undefined): Promise<boolean> {
  api.token = browser.sessionStorage.getItem(KEY) ?? undefined;
  if (code === undefined) return api.token !== undefined;
  try {
    api.token = await api.begin(code);
    browser.sessionStorage.setItem(KEY, api.token);
    return true;
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 401) throw error;
    // The address was opened before, perhaps in this very tab.
    return api.token !== undefined;
  }
}

/** Forgets the session, which has ended. */
export function forgetSession(api: Api): void {
  api.token = undefined;
  browser.sessionStorage.removeItem(KEY);
}

/** Stands in the place of a page that has no session. */
export function signIn(why: "none" | "used" | "ended"): PageElement {
  const [title, text] = {
    none: ["This page needs a session", "A session begins with the address that this command prints."],
    used: [
      "This address is no longer valid",
      "It opens the pages once, within 60 seconds. If it was not you who opened it, end that session by starting the " +
      "broker again. This command prints a new address.",
    ],
    ended: ["This session has ended", "This command prints the address that begins a new one."],
  }[why] as [string, string];
  return el(
    "div.narrow.sign-in",
    el("h1", title),
    el("p", text),
    el("pre.command", "taskd ui"),
    el(
      "p.hint",
      "A session is one tab's. It ends after 30 minutes in which no page of it is open, after 12 hours, and with the broker.",
    ),
  );
}

/** Stands above what was being read when the session ended. */
export function endedNotice(): PageElement {
  return notice(
    "warn",
    el("strong", "This session has ended."),
    " What is shown stays as it was, and nothing can be decided here. ",
    el("code", "taskd ui"),
    " prints the address that begins a new one.",
  );
}
