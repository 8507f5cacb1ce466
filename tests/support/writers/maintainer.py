"""An application's maintenance: runs one script again and again until stdin ends, then prints how
often it was done. A checkpoint that met a reader, and a locked database, count as not done."""

import os
import sqlite3
import sys
import threading
import time

path, script, pause_ms, timeout_ms = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
database = sqlite3.connect(path, timeout=timeout_ms / 1000, isolation_level=None)
ended = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
done = 0
while not ended.is_set():
    copy = f"{path}.copy-{os.getpid()}"
    try:
        rows = [database.execute(statement.replace("COPY", copy)).fetchone() for statement in script.split(";")]
        checkpoint = "wal_checkpoint" in script
        done += 1 if not checkpoint or rows[-1][0] == 0 else 0
    except sqlite3.OperationalError as error:
        if "locked" not in str(error):
            raise
    finally:
        if os.path.exists(copy):
            os.remove(copy)
    # Also without a pause others get the lock now and then: a busy handler sleeps for milliseconds.
    time.sleep(pause_ms / 1000)
print(done)
