/**
 * What the branch-store daemon promises, statement by statement, in the order of its contract. Tests prove them: a line
 * `// conformance: <id> <id>` above a test names what it proves. docs/conformance.md is written from both.
 *
 * @module
 */

/** One statement. */
export interface Statement {
  /** The number of its section, then a name that is unique in it. */
  id: string;
  /** The statement, in this project's words. */
  text: string;
  /** What of it does not hold, and why; docs/limitations.md says so too. */
  unmet?: string;
}

/** A section of the contract. */
export interface Section {
  number: number;
  title: string;
  statements: Statement[];
}

function section(
  number: number,
  title: string,
  statements: Record<string, string | [text: string, unmet: string]>,
): Section {
  const list = Object.entries(statements).map(([name, value]) =>
    typeof value === "string"
      ? { id: `${number}.${name}`, text: value }
      : { id: `${number}.${name}`, text: value[0], unmet: value[1] }
  );
  return { number, title, statements: list };
}

/** Every section with every statement. */
export const SECTIONS: readonly Section[] = [
  section(1, "The service", {
    single_daemon: "One process on one host serves sessions of one store; a second daemon on it is refused.",
    operations:
      "Open, flush, close, checkpoint, checkout (writable, and read-only at a checkpoint), fork, rollback, promote, compact, destroy, status, branches.",
    janitor:
      "Every `-reap-every`: destroy expired branches, collect garbage, and trim the read-only cache to its budget.",
    transports: "A unix socket with one JSON object per line, and HTTP; both fed by one publisher.",
    http_optional: "The HTTP listener is optional.",
    serve_flags:
      "`-socket`, `-http`, `-token`, `-http-allow-non-loopback`, `-flush-every`, `-snapshot-every`, `-reap-every`, `-gc-grace`, `-ro-cache-budget`.",
    not_persisted: "No flag is persisted and there is no configuration file.",
    env_token: "`BSTORE_TOKEN` may supply the token.",
    pull_only: "Metrics are pulled, never pushed.",
  }),
  section(2, "Resources", {
    address: "A branch is addressed as `<db>@<branch>`.",
    one_session: "The session map has at most one entry for a branch.",
    ref_fields: "A ref holds a lease, a lineage and checkpoints with kind and txid.",
    shared_flag: "`BranchInfo.shared`, and `storage=shared` or `storage=materialized` in the status line.",
    mode_shared: "A shared branch holds a base pointer and adds objects only as it diverges.",
    mode_materialized: "A materialized branch holds a full snapshot in its own lineage.",
    shared_default: "Fork, promote and rollback produce shared branches.",
    compact_materializes: "Compact always materializes.",
    materialize_flag: "`--materialize` makes promote and rollback materialize.",
    depth_floor: "Everything materializes at the depth floor: `-snapshot-every` in the daemon, 16 at rest.",
    fork_paths:
      "A fork's copy path is fast (objects shared, cloned, or copied by the server) or slow (materialized and encoded anew).",
    "files.checkout": "`checkouts/<db>/<branch>.db` is the writable checkout and never evicted.",
    "files.sum": "Its `.sum` has `chain_id`, `size`, `mtime_ns`, `change_counter`, `stamped_ns`, `shadow`.",
    "files.shadow":
      "Its `.shadow` lets a checkpoint at rest store only changed pages; destroy removes it; without it the next one is a snapshot.",
    ro_path: "`checkouts-ro/<db>/<branch>@<checkpoint>.db` is what a checkout at a checkpoint makes, immutable.",
    "files.by_chain":
      "`checkouts-ro/<db>/~by-chain/<chainID>.db`, mode 0400 in 0700, is what writable checkouts are cloned from.",
    last_used: "`.last-used` is the clock of the least-recently-used order; the file's time ranks what was never hit.",
    files_rebuilt: "None of these files is a source of truth; each can be deleted.",
    no_clone: "Where blocks cannot be cloned, checkouts are built from the store.",
    ...Object.fromEntries(
      ([
        ["build_info", "1, with the version."],
        ["sessions_open", "open sessions."],
        ["capture_lag_bytes", "committed bytes not yet applied; absent without a session."],
        ["durable_age_seconds", "seconds since the last successful flush; absent without a session."],
        ["flush_total", "by result and kind, all four from the start."],
        ["flush_duration_seconds", "flush latency."],
        ["fork_total", "successful forks by path, both from the start."],
        ["fork_duration_seconds", "latency of successful forks."],
        ["fork_mode_total", "successful forks by mode, both from the start."],
        ["rollback_total", "successful rollbacks by mode, both from the start."],
        ["promote_total", "successful promotes by mode, both from the start."],
        ["checkpoint_duration_seconds", "checkpoints at rest only; a live one is a flush."],
        [
          "checkpoint_overwrite_detected_total",
          "from 0; checkpoints at rest after which the head may be other content.",
        ],
        ["reap_total", "branches that the janitor destroyed."],
        ["gc_tombstoned_total", "objects newly tombstoned."],
        ["gc_deleted_total", "objects deleted after their grace."],
        ["gc_backlog", "objects in their grace."],
        ["gc_errors_total", "passes that failed; they delete nothing, and stderr says why."],
        ["ro_cache_bytes", "bytes of the read-only cache, measured once a pass."],
        ["ro_cache_evictions_total", "entries evicted; 0 without a budget."],
        ["janitor_runs_total", "ticks by outcome; stays 0 without a janitor."],
      ] as const).map(([name, text]) => [`metrics.bstore_${name}`, `\`bstore_${name}\`: ${text}`]),
    ),
    "metrics.buckets": "The three histograms share the contract's 17 buckets.",
    "metrics.exactly_21": "The output has exactly 21 `# TYPE` lines in the table's order.",
  }),
  section(3, "States", {
    active: "`active`: a live lease is held.",
    pending: "`pending`: the daemon is opening a session.",
    error: "`error`: a session has failed, and status names the error.",
    dirty: "`dirty`: the checkout has edits that no checkpoint has.",
    detached: "`detached`: the checkout is of another lineage than the ref; checking out again fixes it.",
    idle: "`idle`: none of these.",
    computed: "State is computed on every call and never stored.",
    precedence: "error, pending, active, dirty, detached, idle: the first that applies.",
    exclusive: "`error` and `pending` never both apply.",
    leased_and_edited: "A branch that is leased and edited is `active`.",
    dirty_by_content: "Whether a branch is dirty is told by its content, never by size and time alone.",
    claims: "A claim does not show in the state, and refuses an open.",
  }),
  section(4, "Endpoints", {
    "http.healthz": "GET `/healthz`: `ok` and `sessions`, without a token.",
    "http.metrics": "GET `/metrics`: the text exposition.",
    "http.events": "GET `/events`: server-sent events, a ping every 15 s, free of the write timeout.",
    "http.rpc": "POST `/rpc`: the socket's operations, at most 1 MiB; `subscribe` is refused.",
    "http.pprof":
      "GET `/debug/pprof/*`: profiles of all threads; `seconds` is the window, 30 by default, cut off at the write budget.",
    "socket.subscribe": "`subscribe`: one ack, then events until the end; nothing further is read.",
    "socket.branches": "`branches`: every branch with state and `shared`.",
    "socket.status": "`status`: sessions with any error.",
    "socket.flush": "`flush` makes a session durable.",
    "socket.close": "`close` closes a session.",
    "socket.checkout_at": "`checkout-at` answers the path of a read-only checkpoint.",
    evicted_enoent: "An evicted path is ENOENT, an open handle goes on, and asking again gives the same bytes.",
    evict_cache_only: "Eviction never removes a path under `checkouts/`.",
  }),
  section(5, "Authentication", {
    "1": "A bearer token on every route but `/healthz`; without it 401.",
    "2": "The socket has no token: who may open the file may use it.",
    "3": "HTTP is off by default; a loopback address needs nothing more.",
    "4": "Another address needs the acknowledgment and an explicit token, each with an error of its own.",
    "5": "A token under 16 characters is a startup error.",
    "6": "Without one, a token is generated and printed once.",
    "7": "It is compared in constant time, and shown only as 8 characters.",
    "8": "Who has it can do everything that the socket can.",
    "9": "`-token` shows in the process list, the environment variable does not.",
  }),
  section(6, "Events", {
    "envelope.v": "`v` is 1.",
    "envelope.ts": "`ts` is ISO 8601 in UTC.",
    "envelope.type": "`type` is one of eight.",
    "envelope.db": "`db` names the database.",
    "envelope.branch": "`branch` names the branch.",
    "envelope.detail": "`detail` is of the type; of `flushed` kind, txid and duration.",
    "type.session_opened": "`session_opened`",
    "type.flushed": "`flushed`, by hand or by the timer.",
    "type.flush_failed": "`flush_failed`",
    "type.fenced": "`fenced`: the lease was lost.",
    "type.session_closed": "`session_closed`",
    "type.reaped": "`reaped`",
    "type.evicted": "`evicted`, with `~by-chain` and the chain's id for such an entry.",
    "type.dropped_slow_consumer": "`dropped_slow_consumer`, only to the one that is dropped.",
    same_events: "Both channels show the same events in the same order.",
    never_blocks: "Publishing never blocks.",
    buffer: "A subscriber whose 64 events are full is removed, told once, and closed.",
    write_deadline: "One that stops reading is closed after 45 s, counted anew for each write.",
    evicted_line: "Each eviction is a line on stderr of a fixed form.",
  }),
  section(7, "Errors", {
    unauthorized: "No or a wrong token: 401.",
    body_too_large: "A body over 1 MiB: 413, and the connection stays usable.",
    subscribe_over_rpc: "`subscribe` over `/rpc`: refused, naming GET `/events`.",
    non_loopback_flag: "Another address without the acknowledgment: startup error.",
    non_loopback_token: "Another address without a token: startup error.",
    short_token: "A short token: startup error.",
    under_destroy: "Open under a destroy: `branch is being deleted`.",
    under_reap: "Open under a reap: `branch is being reaped`.",
    read_stalled: "60 s without a byte of a download: `read stalled`.",
    gc_incomplete: "A mark that is incomplete deletes nothing and is counted.",
    session_error: "A session that has failed makes the branch `error`.",
    evicted_enoent: "A cached path that is gone: ENOENT, ask again.",
    layout: "A store of a newer layout is refused up front.",
  }),
  section(8, "Limits", {
    flush_every: "`-flush-every`: 30 s, 0 for none; an idle session skips its ticks.",
    snapshot_every: "`-snapshot-every`: 16, at least 1; it is the daemon's depth floor too.",
    reap_every: "`-reap-every`: 1 min, 0 for no janitor; garbage can be collected on demand.",
    gc_grace: "`-gc-grace`: 15 min, 0 for the next tick; what is reached again is kept.",
    ro_cache_budget: "`-ro-cache-budget`: none, bytes or K/M/G/T; least recently used first, by file size.",
    by_chain_entries: "At most 64 by-chain entries for a database, pruned by last use; destroy leaves them.",
    stat_clean: "Clean by stat: identity, size, time and counter agree, and more than 1 s between time and stamp.",
    http_timeouts: "5 s for a head, 30 s to read, 90 s to write, 2 min idle.",
    rpc_body: "`/rpc`: at most 1 MiB.",
    subscriber: "64 events, 45 s for a write, a ping every 15 s.",
    token: "16 characters at least; a fingerprint of 8.",
    object_store:
      "60 s for an answer to begin; 15 min and more by size for calls; 60 s without progress for downloads.",
    multipart_copy: "Copies inside a bucket of objects over 5 GiB are made in parts.",
    multipart_cleanup: "Abandoned multipart uploads are the operator's to clean, by a rule of the bucket.",
    storage_reclaim: "Destroy removes the ref; what children need stays. Objects are counted, not lineages.",
    concurrency: "One session for a branch.",
  }),
  section(9, "Versions", {
    event_v: "Events are of version 1.",
    names: "The 21 names are fixed.",
    layout: "The first shared fork raises the store's layout to 2, and there is no way back.",
    releases: [
      "Features of the releases up to 0.2.12 of the system that this follows.",
      "All of them are in from the first version; the version numbers are this project's own.",
    ],
    build_info: "`bstore_build_info` says the version, `dev` outside a release.",
    pre_1_0: "The stored format is before 1.0.",
  }),
];

/** Every statement. */
export const STATEMENTS: readonly Statement[] = SECTIONS.flatMap(({ statements }) => statements);
