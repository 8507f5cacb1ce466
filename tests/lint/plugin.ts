/**
 * The project's own lint rules, as a plugin that `deno lint` loads from deno.json.
 * Each rule keeps a promise of docs/architecture.md that no type can.
 */

import { ambientTime } from "./ambient_time.ts";
import { importCycles } from "./import_cycles.ts";
import { importMapOnly } from "./import_map_only.ts";
import { layering } from "./layering.ts";
import { lineRegex } from "./line_regex.ts";
import { processState } from "./process_state.ts";
import { rawFileAccess } from "./raw_file_access.ts";
import { testNames } from "./test_names.ts";
import { words } from "./words.ts";

export default {
  name: "taskd",
  rules: {
    "ambient-time": ambientTime,
    "import-cycles": importCycles,
    "import-map-only": importMapOnly,
    "layering": layering,
    "line-regex": lineRegex,
    "process-state": processState,
    "raw-file-access": rawFileAccess,
    "test-names": testNames,
    "words": words,
  },
} satisfies Deno.lint.Plugin;
