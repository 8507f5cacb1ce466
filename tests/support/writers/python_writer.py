"""A stock writer: runs jobs from stdin, one JSON object per line, and answers each
with `ack N`, `busy N` or `error N text` after the commit. Default settings of the
sqlite3 module, WAL, autocheckpoint on; only the busy timeout is set."""

import json
import sqlite3
import sys

path, timeout_ms = sys.argv[1], int(sys.argv[2])
writer = sqlite3.connect(path, timeout=timeout_ms / 1000, isolation_level=None)
reader = sqlite3.connect(path, timeout=timeout_ms / 1000, isolation_level=None)


def run(job):
    if job["kind"] == "reader":
        if job["reader"] == "begin":
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        elif reader.in_transaction:
            reader.execute("COMMIT")
        return
    if job["kind"] == "plain":
        for statement in job["sql"]:
            writer.execute(statement).fetchall()
        return
    writer.execute("BEGIN IMMEDIATE")
    for statement in job["sql"]:
        writer.execute(statement)
    writer.execute("COMMIT")


print("ready", flush=True)
for line in sys.stdin:
    job = json.loads(line)
    try:
        run(job)
        print("ack", job["seq"], flush=True)
    except sqlite3.Error as error:
        if writer.in_transaction:
            writer.execute("ROLLBACK")
        busy = "locked" in str(error)
        print("busy" if busy else "error", job["seq"], str(error), flush=True)
