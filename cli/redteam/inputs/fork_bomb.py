# More processes than there may be; prints their number, and stays.
import os, time
count = 0
try:
    while True:
        if os.fork() == 0:
            time.sleep(600)
        count += 1
except BlockingIOError:
    print("made", count, flush=True)
time.sleep(600)
