/**
 * The files of the pages, as text within this program: it reads none of them when it runs, wherever it was installed from.
 */

import * as sources from "./_sources.ts";
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
export { default as SHELL } from "./shell.html" with { type: "text" };
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
/** Sources of the pages' modules, by their name. */
export const MODULES: ReadonlyMap<string, string> = new Map(Object.entries(sources));
