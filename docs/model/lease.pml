/*
 * Leases, flushes, and the claims of destroy and reap, on one branch.
 * README.md says what each process is in the code and how this is run.
 *
 * No clock is modelled, which is every clock: whether a lease or a claim looks expired is any answer at any time. A
 * holder may be paused between any two steps. A process that dies is one that takes no further step. Every write of
 * the ref may be applied and reported as failed, and may be applied long after its client gave it up.
 */

#ifndef HOLDERS
#define HOLDERS 2
#endif
#ifndef FLUSHES
#define FLUSHES 2
#endif
#ifndef DESTROYERS
#define DESTROYERS 1
#endif
#define WRITERS (HOLDERS + DESTROYERS)
#define MAX_TXID 12
#ifdef SAME_EPOCH
#define RAISED 0
#else
#define RAISED 1
#endif
#define MAX_EPOCH 8

/* The ref. */
bool ref = true;
byte etag;    /* of content with a nonce: never the same twice */
byte epoch;
byte holder;  /* 0: no lease */
byte head;    /* txid */
byte claim;   /* 0: none, else its nonce */

/* Objects by epoch and txid: who wrote them, 0 for no one. */
byte written[MAX_EPOCH];
/* The highest txid that a flush has acknowledged. */
byte acknowledged;

/* A write that the server may still apply. */
typedef Write { bool on; bool removal; byte if_match; byte epoch; byte holder; byte head; byte claim };
Write late[WRITERS + 1];

/* INVARIANT: a head never goes back. INVARIANT: what a flush acknowledged is in the branch, or the branch is gone. */
inline swap(new_e, new_h, new_t, new_c) {
  assert(new_t >= head);
  assert(new_t >= acknowledged);
  epoch = new_e; holder = new_h; head = new_t; claim = new_c; etag++
}

/*
 * lib/store/ref.ts: update, one turn of it: a compare-and-swap over what was read. `done` is 1 when it is known to
 * have been applied, 0 when it is known not to have been, 2 when its client gives it up. A reader of the ref knows its
 * own write by the nonce, so "applied, and reported as failed" is 1 or, should it not get to read, 2.
 */
inline write(who, was, to_e, to_h, to_t, to_c, result) {
  if
#ifdef NO_COMPARE
  :: d_step { ref -> swap(to_e, to_h, to_t, to_c); was = etag; result = 1 }
#else
  :: d_step { ref && etag == was -> swap(to_e, to_h, to_t, to_c); was = etag; result = 1 }
#endif
  :: d_step { ref && etag == was -> swap(to_e, to_h, to_t, to_c); result = 2 }
  :: d_step {
      !late[who].on -> late[who].on = true; late[who].removal = false; late[who].if_match = was; late[who].epoch = to_e;
      late[who].holder = to_h; late[who].head = to_t; late[who].claim = to_c; result = 2
    }
  :: d_step { !ref || etag != was -> result = 0 }
  fi
}

/* lib/capture/session.ts on lib/store/lease.ts. */
proctype Session(byte me) {
  byte seen, e, t, c, h, done, flushes, attempted, own;
  /* Lease.acquire: refuses a claim; whether the lease of another looks expired is the clock's affair. */
  do
  :: d_step { !ref -> skip }; goto end
  :: d_step { ref && epoch + 1 < MAX_EPOCH -> seen = etag; e = epoch; t = head; c = claim; h = holder };
    if
#ifndef NO_CLAIM
    :: c != 0 -> goto end
#endif
    :: else -> skip
    fi;
    if
    :: goto end /* lease_held */
    :: skip
    fi;
    write(me, seen, e + RAISED, me, t, c, done);
    if
    :: done == 1 -> break
    :: done == 0
    :: done == 2 ->
      /* The ref is read again: if it names this holder, the write was applied. */
      d_step {
        if
        :: ref && holder == me && epoch == e + RAISED -> done = 1; seen = etag
        :: else
        fi
      }
      if :: done == 1 -> break :: else fi
    fi
  od;
  own = e + RAISED;
  attempted = t;
  do
  :: flushes == FLUSHES -> break
  :: flushes < FLUSHES && attempted + 1 < MAX_TXID ->
    flushes++;
    /* DurableHead.store: an object under the own epoch, with a txid that no attempt has used. */
    d_step {
      attempted++;
      /* INVARIANT: one epoch, one writer. */
      assert(written[own] == 0 || written[own] == me);
      written[own] = me
    };
    /* Lease.write: reads, refuses what is another's, swaps. Also with a lease that ran out: retaking is the same. */
    do
    :: d_step { ref -> seen = etag; e = epoch; h = holder; t = head; c = claim };
      if
#ifdef NO_FENCE
      :: skip
#else
      :: h != me || e != own -> goto end /* fenced */
      :: h == me && e == own
#endif
      fi;
#ifndef NO_CLAIM
      if :: c != 0 -> goto again :: else fi;
#endif
      write(me, seen, e, h, attempted, c, done);
      if
      :: done == 1 ->
        d_step { acknowledged = attempted; done = 0 };
        goto again
      :: done == 2 -> goto again /* The flush is reported as failed. */
      :: done == 0
      fi
    :: !ref -> goto end
    od;
again:
    skip
  od;
  skip;
  /* Lease.release */
  d_step {
    if :: ref && holder == me && epoch == own -> holder = 0; etag++ :: else fi
  };
end:
  skip;
  d_step { seen = 0; e = 0; t = 0; c = 0; h = 0; done = 0; attempted = 0; own = 0; flushes = 0 }
}

/* lib/store/ops/lifecycle.ts: destroy, for a person, the reaper or healClaims. */
proctype Destroyer(byte me) {
  byte seen, e, h, t, c, done, known;
  do
  :: !ref -> goto end
  :: d_step { ref -> seen = etag; e = epoch; h = holder; t = head; c = claim };
    /* A lease or a claim that looks alive refuses it; by any clock either may look expired. */
    if :: h != 0 || c != 0 -> goto end :: skip fi;
    write(me, seen, e, h, t, me, done);
    if
    :: done == 1 -> break
    :: done == 0
    :: done == 2 ->
      d_step { if :: ref && claim == me -> seen = etag; done = 1 :: else fi };
      if :: done == 1 -> break :: else goto end fi
    fi
  od;
  known = t;
  /* Local files go, then the ref, if it is still as it was claimed. */
  if
/* Where the server ignores the condition, the claim alone has to do. */
#ifdef NO_CLAIM
  :: d_step { ref -> assert(head == known); ref = false }
#else
  /* INVARIANT: a destroy takes nothing that was written after its claim. */
  :: d_step { ref && etag == seen -> assert(head == known); ref = false }
  :: d_step { !ref || etag != seen -> done = 0 }
#endif
  :: d_step {
      !late[me].on -> late[me].on = true; late[me].removal = true; late[me].if_match = seen; done = 2
    }
  fi;
  /* dropClaim: only its own. */
  do
  :: !ref -> break
  :: d_step { ref -> seen = etag; e = epoch; h = holder; t = head; c = claim };
    if
    :: c != me -> break
    :: c == me -> write(me, seen, e, h, t, 0, done); if :: done != 0 -> break :: else fi
    :: break /* It dies, and the claim stays. */
    fi
  od;
end:
  skip;
  d_step { seen = 0; e = 0; h = 0; t = 0; c = 0; done = 0; known = 0 }
}

/* The server, with requests whose clients have given them up. */
inline apply(w) {
  if
  :: ref && etag == late[w].if_match && !late[w].removal ->
    swap(late[w].epoch, late[w].holder, late[w].head, late[w].claim)
  :: ref && etag == late[w].if_match && late[w].removal -> ref = false
  :: else
  fi;
  late[w].on = false; late[w].removal = false; late[w].if_match = 0; late[w].epoch = 0; late[w].holder = 0;
  late[w].head = 0; late[w].claim = 0
}

proctype Network() {
  do
  :: d_step { late[1].on -> apply(1) }
  :: d_step { late[2].on -> apply(2) }
#if WRITERS > 2
  :: d_step { late[3].on -> apply(3) }
#endif
  od
}

init {
  byte i;
  atomic {
    epoch = 1; head = 1; etag = 1;
    i = 1;
    do
    :: i <= HOLDERS -> run Session(i); i++
    :: else -> break
    od;
    do
    :: i <= WRITERS -> run Destroyer(i); i++
    :: else -> break
    od;
    i = 0;
    run Network()
  }
}
