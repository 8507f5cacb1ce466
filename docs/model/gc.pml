/*
 * Garbage collection beside fork, first use, destroy, and (with REPOINT) rollback, promote and compact; with FOLD beside
 * folding, which announces and moves points of a branch as those move the branch, without its lease.
 * README.md says what each process is in the code and how this is run.
 *
 * No clock is modelled, which is every clock: whether a grace has passed, whether doom is old enough to be forgotten
 * and whether a lease has run out is any answer at any time. A process that dies is one that takes no further step.
 */

#ifdef FOLD
#define REPOINT
#endif

/* Passes of the first host's collector, and of a second host's. */
#ifndef PASSES
#define PASSES 3
#endif
#ifndef OTHERS
#define OTHERS 0
#endif
#if OTHERS > 0
#define COLLECTORS 2
#else
#define COLLECTORS 1
#endif
#ifndef FORKS
#define FORKS 1
#endif

/* Objects: what the source reads through, and the own object of each new lineage. */
#define O 0
#define OWN(i) (i)
#define OBJECTS (FORKS + 1)
/* Refs: the source, then each fork; with REPOINT the branch that is moved. */
#define SOURCE 0
#define REFS (FORKS + 1)

#define NONE 0
#define TOMB 1
#define DOOM 2

/* The store. */
bool there[OBJECTS];
byte list[OBJECTS]; /* gc/tombstones.json */
byte version;       /* its etag; 0: there is no list */
bool ref[REFS];
byte etag[REFS];
bool used[REFS]; /* epoch above 1 */
#ifdef REPOINT
bool moved;   /* the branch reads through O, and through its own new lineage */
byte holder;  /* 0: no lease */
byte pending; /* which holder has announced the move; 0: none; with FOLD which process has announced that it folds */
#endif
/* A point of the past that needs something doomed is not kept; a head that does fails the pass, or was never finished. */
#ifdef FOLD
#define LENIENT(i) (i != SOURCE)
#else
#define LENIENT(i) (i != SOURCE && !used[i])
#endif

/* Acknowledged, and not destroyed since. */
bool promised[REFS];

/* Requests that the server carries out after their client has given them up. */
bool late_create[REFS];
bool late_publish[COLLECTORS];
byte late_version[COLLECTORS];
typedef Tombstones { byte state[OBJECTS] };
Tombstones late_list[COLLECTORS];

#ifdef REPOINT
#define REACHES(i, x) (i == SOURCE -> x == O : moved && (x == O || x == OWN(i)))
#ifdef FOLD
#define PINS(i, x) (i != SOURCE && pending == 1 && (x == O || x == OWN(i)))
#else
#define PINS(i, x) (i != SOURCE && pending != 0 && pending == holder && (x == O || x == OWN(i)))
#endif
#else
#define REACHES(i, x) (x == O || (i != SOURCE && x == OWN(i)))
#define PINS(i, x) false
#endif

/* INVARIANT: an acknowledged fork's objects are never deleted (repoint: an acknowledged move's). */
inline whole(i) {
  x_ = 0;
  do
  :: x_ < OBJECTS -> assert(!REACHES(i, x_) || there[x_]); x_++
  :: else -> break
  od;
  x_ = 0
}

inline delete(x) {
  i_ = 0;
  do
  :: i_ < REFS -> assert(!(promised[i_] && ref[i_] && REACHES(i_, x))); i_++
  :: else -> break
  od;
  i_ = 0;
  there[x] = false
}

inline removeRef(i) { ref[i] = false; used[i] = false; etag[i]++; promised[i] = false }

/* lib/store/gc.ts: runPass. */
proctype Collector(byte me; byte most) {
  byte seen[OBJECTS], next[OBJECTS];
  bool inventory[OBJECTS], reached[OBJECTS], victim[OBJECTS];
  bool named[REFS], unfinished[REFS], failed, wrote, fresh;
  byte at[REFS];
  byte seen_version, passes, i, x, first, x_, i_;

  do
  :: passes == most -> break
  :: passes < most ->
    passes++;
    /* 1: readTombstones. Steps 1 to 4: survey(). */
    d_step {
      failed = false; wrote = false; fresh = false;
      x = 0;
      do
      :: x < OBJECTS -> seen[x] = list[x]; reached[x] = false; victim[x] = false; next[x] = NONE; x++
      :: else -> break
      od;
      x = 0;
      seen_version = version
    }
    /* 2: readRefs: a listing, then each ref on its own, in any order. */
    d_step { i = 0; do :: i < REFS -> named[i] = ref[i]; unfinished[i] = false; i++ :: else -> break od; i = 0 }
    if :: first = 0 :: first = 1 fi;
    do
    :: i < REFS ->
      d_step {
        x_ = (first == 0 -> i : REFS - 1 - i);
        named[x_] = named[x_] && ref[x_];
        at[x_] = etag[x_];
        if
        :: named[x_] ->
          x = 0;
          do
          :: x < OBJECTS ->
            if
            :: REACHES(x_, x) && seen[x] == DOOM && LENIENT(x_) -> unfinished[x_] = true
            :: REACHES(x_, x) && seen[x] == DOOM && !LENIENT(x_) -> failed = true
            :: else
            fi;
            x++
          :: else -> break
          od;
          x = 0;
          do
          :: x < OBJECTS ->
            reached[x] = reached[x] || (!unfinished[x_] && REACHES(x_, x)) || PINS(x_, x);
            x++
          :: else -> break
          od;
          x = 0
        :: else
        fi;
        x_ = 0;
        i++
      }
    :: else -> break
    od;
#ifdef LIST_READ_LATE
    skip;
    d_step { x = 0; do :: x < OBJECTS -> seen[x] = list[x]; x++ :: else -> break od; x = 0; seen_version = version }
#endif
    /* 3: takeInventory; 4: a gap that no doom explains fails the pass. */
    skip;
    d_step {
      i = 0;
      x = 0;
      do
      :: x < OBJECTS ->
        inventory[x] = there[x];
        if :: reached[x] && !there[x] && seen[x] != DOOM && !PINS(1, x) -> failed = true :: else fi;
        x++
      :: else -> break
      od;
      x = 0
    }
    /* withdrawAll: what was never finished, if it is still as it was read. */
    do
    :: i < REFS && !failed ->
      d_step {
        if
#ifdef FOLD
        :: unfinished[i] -> skip
#else
        :: unfinished[i] && ref[i] && etag[i] == at[i] -> removeRef(i)
        :: unfinished[i] && ref[i] && etag[i] != at[i] -> failed = true
#endif
        :: else
        fi;
        i++
      }
    :: else -> break
    od;
    if
    :: failed -> i = 0; goto done
    :: else
    fi;
    /* makePlan: NONE to TOMB, TOMB to DOOM, DOOM to forgotten. */
    atomic {
    i = 0;
    do
    :: x < OBJECTS ->
      if
      :: reached[x] && seen[x] != DOOM -> next[x] = NONE
      :: seen[x] == DOOM && inventory[x] -> next[x] = DOOM; victim[x] = true
      :: seen[x] == DOOM && !inventory[x] -> next[x] = DOOM
      :: seen[x] == DOOM && !inventory[x] -> next[x] = NONE
#ifdef FORGET_EARLY
      :: seen[x] == DOOM && inventory[x] -> next[x] = NONE; victim[x] = true
#endif
      :: seen[x] == TOMB && !inventory[x] -> next[x] = NONE
      :: seen[x] == TOMB && inventory[x] && !reached[x] -> next[x] = TOMB
      :: seen[x] == TOMB && inventory[x] && !reached[x] -> next[x] = DOOM; victim[x] = true
      :: seen[x] == NONE && inventory[x] && !reached[x] -> next[x] = TOMB; fresh = true
#ifdef DOOM_AT_ONCE
      :: seen[x] == NONE && inventory[x] && !reached[x] -> next[x] = DOOM; victim[x] = true
#endif
      :: seen[x] == NONE && !inventory[x] -> next[x] = NONE
      fi;
      wrote = wrote || next[x] != seen[x];
      x++
    :: else -> x = 0; break
    od
    };
    /* 5: publish: one compare-and-swap. */
    if
    :: !wrote
    :: wrote ->
      if
#ifdef NO_SWAP
      :: d_step { true -> x = 0; do :: x < OBJECTS -> list[x] = next[x]; x++ :: else -> break od; x = 0; version++; seen_version = version }
#else
      :: d_step { version == seen_version -> x = 0; do :: x < OBJECTS -> list[x] = next[x]; x++ :: else -> break od; x = 0; version++; seen_version = version }
      :: version != seen_version -> goto done
#endif
#ifdef LATE
      :: d_step {
          /* The answer is lost, a look at the list shows nothing, and the server writes later. */
          !late_publish[me] -> late_publish[me] = true; late_version[me] = seen_version;
          x = 0; do :: x < OBJECTS -> late_list[me].state[x] = next[x]; x++ :: else -> break od; x = 0
        };
        goto done
#endif
      fi
    fi;
    /* 6: reviveLate. */
    if
    :: fresh ->
      d_step {
        i = 0;
        x = 0;
        do
        :: x < OBJECTS ->
          i = 0;
          do
          :: i < REFS ->
            if :: next[x] == TOMB && ref[i] && (REACHES(i, x) || PINS(i, x)) -> next[x] = NONE :: else fi;
            i++
          :: else -> break
          od;
          x++
        :: else -> break
        od;
        i = 0; x = 0
      }
      d_step {
        if
        :: version == seen_version -> do :: x < OBJECTS -> list[x] = next[x]; x++ :: else -> break od; x = 0; version++
        :: else
        fi
      }
    :: else
    fi;
    /* 7: deleteAll. */
    do
    :: x < OBJECTS -> d_step { if :: victim[x] && there[x] -> delete(x) :: else fi; x++ }
    :: x < OBJECTS && victim[x] -> x++ /* It cannot be deleted this time, or was deleted by another. */
    :: else -> break
    od;
done:
    skip;
    /* What is not needed any more would only make states of one kind differ. */
    d_step {
      failed = false; wrote = false; fresh = false; first = 0; seen_version = 0;
      x = 0;
      do
      :: x < OBJECTS -> seen[x] = 0; next[x] = 0; inventory[x] = false; reached[x] = false; victim[x] = false; x++
      :: else -> break
      od;
      x = 0; i = 0;
      do
      :: i < REFS -> named[i] = false; unfinished[i] = false; at[i] = 0; i++
      :: else -> break
      od;
      i = 0
    }
  od
}

#ifdef REPOINT
/* The announcement comes before the new lineage. */
#define BEFORE_OWN true
#else
#define BEFORE_OWN false
#endif

/* lib/store/tombstones.ts: spare. 0: it may be relied on. */
inline spare(i, since, verdict) {
  verdict = 2;
  do
  :: verdict != 2 -> break
  :: verdict == 2 ->
    d_step {
      /* readTombstones */
      v_ = version; n_ = NONE; x_ = 0;
      do
      :: x_ < OBJECTS ->
        if :: (x_ == O || x_ == OWN(i)) && list[x_] > n_ -> n_ = list[x_] :: else fi;
        x_++
      :: else -> break
      od;
      x_ = 0
    }
    if
    :: n_ == DOOM -> verdict = 1
#ifdef NO_TOMBSTONES_READ
    :: n_ == TOMB -> verdict = 0
#else
    :: n_ == TOMB ->
      /* The tombstones on it are revoked, by compare-and-swap. */
      d_step {
        if
        :: version == v_ ->
          if :: list[O] == TOMB -> list[O] = NONE :: else fi;
          if :: list[OWN(i)] == TOMB -> list[OWN(i)] = NONE :: else fi;
          version++
        :: else
        fi
      }
#endif
    :: n_ == NONE && v_ == since -> verdict = 0
#ifdef NO_EXISTENCE_CHECK
    :: n_ == NONE && v_ != since -> verdict = 0
#else
    :: n_ == NONE && v_ != since ->
      /* assertThere */
      if
      :: d_step { there[O] && (there[OWN(i)] || BEFORE_OWN) -> verdict = 0 }
      :: d_step { !(there[O] && (there[OWN(i)] || BEFORE_OWN)) -> verdict = 1 }
      fi
#endif
    fi
  od;
  v_ = 0; n_ = 0
}

#ifndef REPOINT
/* lib/store/ops/fork.ts: fork; lib/store/ops/lineage.ts: beginLineage, createBranch, withdraw. */
proctype Fork(byte me; byte from) {
  byte since, verdict, tries, v_, n_, x_, own;
  since = version; /* listVersion */
  if
  :: ref[from]
  :: !ref[from] -> goto end
  fi;
  /* pointAt */
  if
  :: there[O] && (from == SOURCE || there[OWN(from)])
  :: else -> goto end
  fi;
  there[OWN(me)] = true;
#ifdef CHECK_BEFORE_REF
  spare(me, since, verdict);
  if :: verdict == 0 :: verdict == 1 -> goto end fi;
#endif
  /* Refs.create: the answer may be lost, and the request be carried out at any later time. */
  do
  :: d_step { !ref[me] -> ref[me] = true; used[me] = false; etag[me]++; own = etag[me] }; break
#ifdef LATE
  :: d_step { tries == 0 && !late_create[me] -> late_create[me] = true; tries = 1 }
#endif
  :: tries == 1 -> goto end /* It gives up: the result is not known. */
  :: d_step { ref[me] -> own = etag[me] }; break /* By its lineage it is ours. */
  od;
#ifndef CHECK_BEFORE_REF
  spare(me, since, verdict);
#endif
  if
  :: verdict == 0 ->
    d_step {
      /* Unless it was destroyed before the answer: what the server then writes late is not this branch. */
      if :: ref[me] && etag[me] == own -> promised[me] = true; whole(me) :: else fi
    }
  :: verdict == 1 -> goto withdraw
  :: goto withdraw /* The list could not be read. */
  fi;
  goto end;
withdraw:
  skip;
#ifdef WITHDRAW_USED
  d_step { if :: ref[me] -> assert(!promised[me]); removeRef(me) :: else fi };
#else
  d_step { if :: ref[me] && !used[me] -> assert(!promised[me]); removeRef(me) :: else fi };
#endif
end:
  skip;
  d_step { since = 0; verdict = 0; tries = 0; own = 0 }
}

/* lib/store/lease.ts: Lease.acquire; lib/store/ops/lineage.ts: confirm. What is flushed then is acknowledged. */
proctype FirstUse(byte which) {
  byte since, verdict, v_, n_, x_, known;
  d_step { ref[which] && !used[which] -> known = etag[which] };
#ifndef NO_CONFIRM
  since = version;
  if
  :: there[O] && there[OWN(which)]
  :: else -> goto end
  fi;
  spare(which, since, verdict);
  if :: verdict == 0 :: verdict == 1 -> goto end fi;
#endif
  d_step {
    if
#ifdef LEASE_BY_LINEAGE
    :: ref[which] && !used[which] -> used[which] = true; etag[which]++; promised[which] = true; whole(which)
#else
    :: ref[which] && etag[which] == known -> used[which] = true; etag[which]++; promised[which] = true; whole(which)
#endif
    :: else
    fi
  }
end:
  skip;
  d_step { since = 0; verdict = 0; known = 0 }
}
#else
/* lib/store/ops/repoint.ts: repoint, recordPendingLineage, moveTo; each write under the lease. FOLD: lib/store/fold.ts. */
proctype Move(byte me) {
  byte since, verdict, v_, n_, x_;
#ifndef FOLD
  d_step { holder == 0 -> holder = 1; etag[me]++ };
#endif
  since = version;
  if
  :: ref[SOURCE]
  :: !ref[SOURCE] -> goto end
  fi;
  if
  :: there[O]
  :: !there[O] -> goto end
  fi;
#ifdef FOLD
#ifndef NO_PENDING
  /* In place of what another has announced. */
  d_step { pending = 1; etag[me]++ };
#endif
#elif !defined(NO_PENDING)
  d_step { if :: holder == 1 -> pending = 1; etag[me]++ :: else -> verdict = 3 fi };
  if :: verdict == 3 -> goto end :: else fi;
#endif
  spare(me, since, verdict);
  if :: verdict == 0 :: verdict == 1 -> goto end fi;
  there[OWN(me)] = true;
#ifdef MOVE_UNFENCED
  d_step { moved = true; pending = 0; promised[me] = true; etag[me]++; whole(me) };
#else
  d_step {
    if
#if defined(FOLD) && !defined(NO_PENDING)
    :: pending == 1 -> moved = true; pending = 0; promised[me] = true; etag[me]++; whole(me)
#else
    :: holder == 1 -> moved = true; pending = 0; promised[me] = true; etag[me]++; whole(me)
#endif
    :: else
    fi
  };
#endif
end:
  skip;
  d_step { since = 0; verdict = 0 }
}

/* Another holder: by its clock the lease has run out. */
proctype Thief(byte which) {
#ifdef FOLD
  /* Another process folds the branch, and leaves that be, or takes an announcement for abandoned. */
  d_step { pending = 2; etag[which]++ };
  d_step { pending = 0; etag[which]++ }
#else
  d_step { holder == 1 -> holder = 2; etag[which]++ };
  holder = 0
#endif
}
#endif

/* lib/store/ops/lifecycle.ts: destroy. */
proctype Destroy(byte which) {
  d_step { ref[which] && (which == SOURCE || promised[which]) -> removeRef(which) }
}

/* The server, with requests whose clients have given them up. */
proctype Network() {
  byte i, x;
  do
  :: d_step {
      late_create[1] -> late_create[1] = false;
      if :: !ref[1] -> ref[1] = true; used[1] = false; etag[1]++ :: else fi
    }
#if FORKS > 1
  :: d_step {
      late_create[2] -> late_create[2] = false;
      if :: !ref[2] -> ref[2] = true; used[2] = false; etag[2]++ :: else fi
    }
#endif
  :: d_step {
      late_publish[0] -> late_publish[0] = false;
      if
      :: version == late_version[0] -> x = 0; do :: x < OBJECTS -> list[x] = late_list[0].state[x]; x++ :: else -> break od; version++
      :: else
      fi;
      late_version[0] = 0; x = 0; do :: x < OBJECTS -> late_list[0].state[x] = 0; x++ :: else -> break od; x = 0
    }
#if OTHERS > 0
  :: d_step {
      late_publish[1] -> late_publish[1] = false;
      if
      :: version == late_version[1] -> x = 0; do :: x < OBJECTS -> list[x] = late_list[1].state[x]; x++ :: else -> break od; version++
      :: else
      fi;
      late_version[1] = 0; x = 0; do :: x < OBJECTS -> late_list[1].state[x] = 0; x++ :: else -> break od; x = 0
    }
#endif
  od
}

init {
  byte x_;
  atomic {
    there[O] = true;
    ref[SOURCE] = true; used[SOURCE] = true; promised[SOURCE] = true;
#ifdef LATE
    run Network();
#endif
    run Destroy(SOURCE);
    run Collector(0, PASSES);
#if OTHERS > 0
    run Collector(1, OTHERS);
#endif
#ifdef REPOINT
    ref[1] = true; used[1] = true;
#if defined(FOLD) && defined(NO_PENDING)
    holder = 1;
#endif
    run Move(1);
    run Thief(1)
#else
    run Fork(1, SOURCE)
#ifdef USE
    ;
    run FirstUse(1);
    run Destroy(1)
#endif
#if FORKS > 1
    ;
    run Destroy(1);
    run Fork(2, 1)
#endif
#endif
  }
}
