/**
 * The files of the pages, as text within this program: it reads none of them when it runs, wherever it was installed from.
 */

import shell from "./shell.html" with { type: "text" };
import decided from "../task/decided.ts" with { type: "text" };
import page_proof from "../task/page_proof.ts" with { type: "text" };
import seen from "../task/seen.ts" with { type: "text" };
import shown from "../task/shown.ts" with { type: "text" };
import concat from "../../lib/concat.ts" with { type: "text" };
import server_sent_events from "../../lib/http/server_sent_events.ts" with { type: "text" };
import canonical_json from "../../lib/text/canonical_json.ts" with { type: "text" };
import characters from "../../lib/text/characters.ts" with { type: "text" };
import commit_address from "../../lib/text/commit_address.ts" with { type: "text" };
import decidable from "../../lib/merge/decidable.ts" with { type: "text" };
import api from "./pages/api.ts" with { type: "text" };
import app from "./pages/app.ts" with { type: "text" };
import code from "./pages/code.ts" with { type: "text" };
import conflicts from "./pages/conflicts.ts" with { type: "text" };
import databases from "./pages/databases.ts" with { type: "text" };
import decision from "./pages/decision.ts" with { type: "text" };
import diff from "./pages/diff.ts" with { type: "text" };
import diff_view from "./pages/diff_view.ts" with { type: "text" };
import dom from "./pages/dom.ts" with { type: "text" };
import evidence from "./pages/evidence.ts" with { type: "text" };
import format from "./pages/format.ts" with { type: "text" };
import gate from "./pages/gate.ts" with { type: "text" };
import hidden from "./pages/hidden.ts" with { type: "text" };
import history from "./pages/history.ts" with { type: "text" };
import keys from "./pages/keys.ts" with { type: "text" };
import link from "./pages/link.ts" with { type: "text" };
import live from "./pages/live.ts" with { type: "text" };
import output from "./pages/output.ts" with { type: "text" };
import page from "./pages/page.ts" with { type: "text" };
import pending from "./pages/pending.ts" with { type: "text" };
import row_view from "./pages/row_view.ts" with { type: "text" };
import session from "./pages/session.ts" with { type: "text" };
import sight from "./pages/sight.ts" with { type: "text" };
import sparkline from "./pages/sparkline.ts" with { type: "text" };
import spend from "./pages/spend.ts" with { type: "text" };
import stages from "./pages/stages.ts" with { type: "text" };
import syntax from "./pages/syntax.ts" with { type: "text" };
import table_view from "./pages/table_view.ts" with { type: "text" };
import task_page from "./pages/task_page.ts" with { type: "text" };
import unanswered from "./pages/unanswered.ts" with { type: "text" };
import changed_words from "./pages/changed_words.ts" with { type: "text" };
import bar_style from "./styles/bar.css" with { type: "text" };
import base_style from "./styles/base.css" with { type: "text" };
import data_style from "./styles/data.css" with { type: "text" };
import diff_style from "./styles/diff.css" with { type: "text" };
import facts_style from "./styles/facts.css" with { type: "text" };
import hidden_style from "./styles/hidden.css" with { type: "text" };
import history_style from "./styles/history.css" with { type: "text" };
import lists_style from "./styles/lists.css" with { type: "text" };
import media_style from "./styles/media.css" with { type: "text" };
import overlay_style from "./styles/overlay.css" with { type: "text" };
import page_style from "./styles/page.css" with { type: "text" };
import side_style from "./styles/side.css" with { type: "text" };
import task_style from "./styles/task.css" with { type: "text" };

/** The document that every page begins as. */
export const SHELL: string = shell;
/** The style sheet: of two rules that are as specific, the later one holds, so the order is a part of it. */
export const STYLE: string = [
  base_style,
  bar_style,
  page_style,
  facts_style,
  hidden_style,
  diff_style,
  data_style,
  side_style,
  lists_style,
  task_style,
  history_style,
  overlay_style,
  media_style,
].join("\n");
/** Sources of the pages' modules, by their name; those outside of `pages` are the terminal's as well. */
export const MODULES: ReadonlyMap<string, string> = new Map(Object.entries({
  api,
  app,
  canonical_json,
  characters,
  code,
  commit_address,
  conflicts,
  databases,
  decidable,
  decided,
  decision,
  diff,
  diff_view,
  dom,
  concat,
  server_sent_events,
  evidence,
  format,
  gate,
  hidden,
  history,
  keys,
  link,
  live,
  output,
  page,
  page_proof,
  pending,
  row_view,
  seen,
  session,
  shown,
  sight,
  sparkline,
  spend,
  stages,
  syntax,
  table_view,
  task_page,
  unanswered,
  changed_words,
}));
