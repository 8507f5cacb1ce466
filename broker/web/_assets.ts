/**
 * The files of the pages, as text within this program: it reads none of them when it runs, wherever it was installed from.
 *
 * @module
 */

import shell from "./shell.html" with { type: "text" };
import style from "./style.css" with { type: "text" };
import api from "./pages/api.ts" with { type: "text" };
import app from "./pages/app.ts" with { type: "text" };
import code from "./pages/code.ts" with { type: "text" };
import databases from "./pages/databases.ts" with { type: "text" };
import decision from "./pages/decision.ts" with { type: "text" };
import diff from "./pages/diff.ts" with { type: "text" };
import diff_view from "./pages/diff_view.ts" with { type: "text" };
import dom from "./pages/dom.ts" with { type: "text" };
import events from "./pages/events.ts" with { type: "text" };
import evidence from "./pages/evidence.ts" with { type: "text" };
import format from "./pages/format.ts" with { type: "text" };
import gate from "./pages/gate.ts" with { type: "text" };
import hidden from "./pages/hidden.ts" with { type: "text" };
import history from "./pages/history.ts" with { type: "text" };
import keys from "./pages/keys.ts" with { type: "text" };
import live from "./pages/live.ts" with { type: "text" };
import output from "./pages/output.ts" with { type: "text" };
import page from "./pages/page.ts" with { type: "text" };
import pending from "./pages/pending.ts" with { type: "text" };
import sparkline from "./pages/sparkline.ts" with { type: "text" };
import spend from "./pages/spend.ts" with { type: "text" };
import stages from "./pages/stages.ts" with { type: "text" };
import syntax from "./pages/syntax.ts" with { type: "text" };
import task_page from "./pages/task_page.ts" with { type: "text" };
import words from "./pages/words.ts" with { type: "text" };

/** The document that every page begins as. */
export const SHELL: string = shell;
/** The style sheet. */
export const STYLE: string = style;
/** Sources of the pages' modules, by their name. */
export const MODULES: ReadonlyMap<string, string> = new Map(Object.entries({
  api,
  app,
  code,
  databases,
  decision,
  diff,
  diff_view,
  dom,
  events,
  evidence,
  format,
  gate,
  hidden,
  history,
  keys,
  live,
  output,
  page,
  pending,
  sparkline,
  spend,
  stages,
  syntax,
  task_page,
  words,
}));
