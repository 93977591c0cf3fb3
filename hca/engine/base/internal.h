/* What the engine's files share. Everything here is used with the engine's lock held. */
#ifndef HCA_INTERNAL_H
#define HCA_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/doorbell.h"
#include "base/policy.h"
#include "base/table.h"
#include "tessera_hca.h"

/* All programs of one pod on one device: what takes turns with others (share.c). */
struct hca_function {
  struct hca_function *next, *next_ready;
  uint8_t gids[TESSERA_HCA_GIDS][16]; /* the second identifies it */
  struct hca_client *clients;
  struct hca_bells bells;
  int64_t credit; /* units of work that it may still have carried out; less than 0: a debt */
  bool ready;     /* listed among those that take turns */
  bool begun;     /* its turn was interrupted, and goes on */
  struct hca_qp *first_queued, *last_queued;
  struct hca_qp **timers; /* a heap: a parent wakes no later than its children */
  uint32_t timer_count, timer_room, qp_count;
  struct hca_qp *first_paced, *last_paced; /* waiting for a rate or a wire, the oldest first */
  struct hca_srq *first_posted, *last_posted; /* whose waiting requesters are to be queued */
  uint64_t ready_since; /* the engine's work by then */
  atomic_ullong rounds; /* turns that ended, and passes that found nothing to do */
  tessera_hca_work_counts counts;
};

struct hca_client {
  struct hca_client *next, *previous; /* of its function */
  struct hca *hca;
  struct hca_function *function;
  struct hca_bell bell;
  tessera_hca_client_page *page; /* hostile */
  unsigned word, srq_word;       /* of its page: read next */
  struct hca_cq *rearm_next;     /* the next armed queue to look at; NULL: the first */
  uint32_t rearm_left, cq_count;
  int doorbell_fd, async_fd;
  uint8_t gids[TESSERA_HCA_GIDS][16];
  uint16_t pkeys[TESSERA_HCA_PKEYS]; /* 0: none */
  struct hca_cq *cqs;
  struct hca_qp *qps[TESSERA_HCA_MAX_QPS];
  struct hca_srq *srqs[TESSERA_HCA_MAX_SRQS];
};

struct hca_cq {
  struct hca_cq *next, *previous;
  struct hca_client *client;
  uint32_t handle;
  tessera_hca_cq_page *page; /* hostile, like the entries */
  tessera_hca_cqe *entries;
  uint64_t page_bytes;
  uint32_t count, head, events;
  int notify_fd; /* -1: none */
  bool overrun;
};

struct hca_segment {
  uint8_t *base;
  uint64_t bytes;
};

struct hca_piece {
  const struct hca_segment *segment;
  uint64_t offset, bytes;
  uint64_t start; /* bytes of the region before it */
};

struct hca_region {
  struct hca_client *client;
  uint64_t serial; /* no two regions have the same: keys come again */
  uint32_t key, pd, access;
  uint64_t iova, bytes;
  unsigned piece_count;
  struct hca_piece pieces[];
};

/* A memory window: what it opens of a region, while it is bound. */
struct hca_window {
  struct hca_client *client;
  uint32_t key, pd, type;
  bool bound;
  uint32_t region_key, qpn, access; /* the queue pair that it was bound on */
  uint64_t region_serial, address, bytes;
};

struct hca_ah {
  struct hca_client *client;
  uint32_t key;
  tessera_hca_ah_create path;
  struct hca_policy policy;
};

struct hca_srq {
  struct hca_client *client;
  tessera_hca_srq_page *page; /* hostile, like the slots */
  tessera_hca_recv_slot *slots;
  uint64_t page_bytes;
  uint32_t handle, index, count, tail, limit;
  bool broken;
  struct hca_qp *first_waiter, *last_waiter; /* requesters that wait for a receive of it */
  uint32_t waiters, wake_left;               /* of which so many are to be queued */
  bool posted;                               /* listed by its function */
  struct hca_srq *next_posted, *previous_posted;
};

/* A queue pair's membership of a multicast group. */
struct hca_member {
  struct hca_member *next; /* of a list that may have other groups, too */
  struct hca_qp *qp;
  uint8_t gid[16];
  bool open; /* policy has nothing to say: it hears everybody */
};

/* Who hears whom in groups, both of this engine: as hcad has judged datagrams between the two. */
struct hca_pair {
  struct hca_ah ah; /* first: to who sets policies it is one; its address is the sender's */
  struct hca_pair *next;
  uint8_t member[16];
};

/* Which frames go to which raw packet queue pairs. */
struct hca_steer {
  struct hca_steer *next; /* of less or the same urgency */
  tessera_hca_steer_create wanted;
  struct hca_qp *targets[TESSERA_HCA_STEER_TARGETS];
};

/* Which byte of a list of addresses comes next. */
struct hca_cursor {
  const tessera_hca_sge *sges;
  unsigned count, index;
  uint32_t offset;
};

/* The request that a queue pair is at. */
struct hca_work {
  bool active;
  bool denied; /* by policy, which was counted */
  bool admitted; /* a datagram, by policy: it was counted */
  bool receives; /* the peer's next receive request is in `recv` */
  uint32_t bytes, done;
  tessera_hca_send_slot send; /* the one copy that is checked and used */
  tessera_hca_recv_slot recv;
  struct hca_cursor local, remote;
};

enum hca_wait {
  HCA_WAIT_NONE,
  HCA_WAIT_PEER,
  HCA_WAIT_RECEIVE,
  HCA_WAIT_RATE,
  HCA_WAIT_WIRE
};

struct hca_qp {
  struct hca_client *client;
  struct hca_cq *send_cq, *recv_cq;
  struct hca_srq *srq; /* NULL: it has receive slots of its own */
  uint32_t type;
  tessera_hca_qp_page *page; /* hostile, like the slots */
  tessera_hca_send_slot *send_slots;
  tessera_hca_recv_slot *recv_slots;
  uint64_t page_bytes;
  uint32_t number, index, pd, send_count, recv_count, send_tail, recv_tail;
  bool signal_all, block_self;
  bool broken; /* its rings make no sense: they are not read any more */
  tessera_hca_qp_attributes attributes;
  struct hca_policy policy;
  struct hca_work work;
  bool holds; /* `held` was taken for a message that is not complete */
  tessera_hca_recv_slot held;
  bool drained;       /* in SQD, and an event has said so */
  bool said_last_wqe; /* in ERR, with a shared receive queue */
  enum hca_wait waiting;
  unsigned waits; /* for the same reason, one after the other */
  uint64_t wake_ns;
  bool queued, timed, paced;
  struct hca_qp *next_queued, *previous_queued;
  uint32_t timer; /* its place in the heap, while `timed` */
  struct hca_qp *next_paced, *previous_paced;
  uint64_t paced_generation;
  struct hca_srq *awaited; /* the shared receive queue whose list it is in; NULL: none */
  struct hca_qp *next_waiter, *previous_waiter;
  struct hca_wired *wired; /* NULL: not connected over a wire */
  uint64_t frame;          /* the last that it was given: several rules may name it */
};

enum { HCA_PAIR_LISTS = 64, HCA_GROUP_LISTS = 64 };

struct hca {
  pthread_t thread;
  pthread_mutex_t lock;
  atomic_uint callers; /* that want the lock */
  atomic_uint entered; /* how often one has got it */
  atomic_bool ending;
  bool held; /* no turns: its state is being handed over, or not complete yet */
  pthread_cond_t released;
  int epoll_fd, wake_fd;
  int absent_fd; /* tells of pages that are not there; -1: the kernel has no such thing */
  struct hca_table qps, regions;
  struct hca_table windows; /* by the upper 24 bits of their keys */
  struct hca_table ahs;
  struct hca_member *members[HCA_GROUP_LISTS];
  struct hca_pair *pairs[HCA_PAIR_LISTS];
  struct hca_steer *steers; /* the most urgent first */
  uint64_t frames;          /* that raw packet queue pairs have sent */
  uint64_t next_serial;
  uint8_t datagram[TESSERA_HCA_GRH_BYTES + TESSERA_HCA_MAX_DATAGRAM_BYTES]; /* or a frame */
  struct hca_function *functions;
  struct hca_table numbered; /* functions, by their bells' numbers */
  uint32_t last_number;
  uint32_t polled_count; /* programs that the engine looks at */
  uint64_t bells_ns;     /* its last look for bells */
  struct hca_function unowned; /* of addresses that no client has */
  struct hca_function *first_ready, *last_ready;
  struct hca_function *charged; /* for what is done now; NULL: nothing is charged */
  uint32_t waiting_count;
  uint64_t policy_generation; /* queue pairs that waited under an older one look again */
  uint64_t work, most_pass; /* units carried out so far, and the most between two looks */
  atomic_ullong sleeps, turns;
  struct hca_wire *wires;
  struct hca_wired *wire_noted;  /* whose answers are due */
  struct wire_batch *wire_batch; /* NULL until there is a wire, like what follows */
  uint8_t *wire_room;
  int wire_epoll_fd;
  int asks_fd; /* eventfd: somebody is to be judged */
  bool judged; /* somebody was, whose datagrams wait */
  struct hca_pacing *pacing; /* NULL: there are no QoS classes */
  uint64_t pacing_number;
};

/* What work costs: a unit is about the time that a byte takes which is copied. */
enum {
  HCA_QUANTUM = 256 << 10,     /* of a function's turn */
  HCA_TURN_BYTES = 64 << 10,   /* of a queue pair's turn */
  HCA_WALK_COST = 32 << 10,    /* of each walk over a function's objects in a turn */
  HCA_TURN_COST = 512,         /* a queue pair's turn, whatever it does */
  HCA_REQUEST_COST = 1024,     /* a request, or a completion without one */
  HCA_PART_COST = 256,         /* an element of a list, or a piece of a region */
  HCA_STEP_COST = 256,         /* an object that a walk visits */
  HCA_CALL_COST = 4096,        /* a system call: an event, a notification */
  HCA_PACKET_COST = 2048,      /* a packet, whose checksum is made or checked */
};

/* Charges the function whose work is carried out. */
static inline void hca_charge(struct hca *hca, uint64_t cost) {
  if (!hca->charged) return;
  hca->charged->credit -= (int64_t)cost;
  hca->charged->counts.cost += cost;
  hca->work += cost;
}

/* function.c: which programs share a turn. */
/* Makes a client part of its function, which may be new; false without memory. */
bool hca_function_join(struct hca *hca, struct hca_client *client);
void hca_function_leave(struct hca *hca, struct hca_client *client);
/* Whose an address is; never NULL. */
struct hca_function *hca_function_of(struct hca *hca, const uint8_t *gid);
/* Has room for one more queue pair's timer; false without memory. */
bool hca_function_grow(struct hca_function *function);

/* share.c: functions take turns by deficit round robin. */
/* Makes functions ready that have something to do; returns whether any is. `*wake_ns`: when the next
 * one has, or UINT64_MAX. */
bool hca_find_ready(struct hca *hca, uint64_t now_ns, uint64_t *wake_ns);
/* Gives ready functions their turns, until about a quantum's work is done. */
void hca_serve(struct hca *hca, uint64_t now_ns);

/* collect.c: what a function's programs have written into their pages. */
void hca_collect(struct hca *hca, struct hca_function *function);

/* queue.c: the order in which a function's queue pairs are served. */
/* The engine may sleep; it looks at its queues again. */
void hca_ring(struct hca *hca);
/* Lists a function among those that take turns. */
void hca_make_ready(struct hca *hca, struct hca_function *function);
void hca_enqueue(struct hca *hca, struct hca_qp *qp);
struct hca_qp *hca_dequeue(struct hca_function *function);
void hca_unqueue(struct hca_qp *qp);

/* wait.c: what queue pairs wait for. */
void hca_wait_until(struct hca *hca, struct hca_qp *qp, enum hca_wait why, uint64_t wake_ns);
/* The same for a receive request of a shared queue. */
void hca_wait_for_srq(struct hca *hca, struct hca_qp *qp, struct hca_srq *srq, uint64_t wake_ns);
void hca_wait_end(struct hca *hca, struct hca_qp *qp);
/* Ends a queue pair's wait and takes it out of its function's queue. */
void hca_forget(struct hca *hca, struct hca_qp *qp);
/* Takes requesters out of a shared receive queue's list; false: there are more. */
bool hca_leave_srq(struct hca_srq *srq);
/* Has a function's turns queue the requesters that wait for a shared receive queue. */
void hca_srq_posted(struct hca_srq *srq);
void hca_srq_forget(struct hca_srq *srq);
/* When the first of a function's queue pairs has waited long enough; UINT64_MAX: none waits. */
uint64_t hca_next_wake_ns(const struct hca_function *function);
/* Whether a walk of hca_wake() has something to do, timers aside. */
bool hca_has_woken(const struct hca *hca, const struct hca_function *function);
/* Queues a function's queue pairs that have waited long enough, and those that look again. */
void hca_wake(struct hca *hca, struct hca_function *function, uint64_t now_ns);

/* memory.c */
/* Whether `wanted` bytes at an address lie in `bytes` from `first` on. */
static inline bool hca_holds(uint64_t first, uint64_t bytes, uint64_t address, uint64_t wanted) {
  if (address < first || address - first > bytes) return false;
  return wanted <= bytes - (address - first);
}
const struct hca_region *hca_region_of(struct hca *hca, const struct hca_qp *qp, uint32_t key,
                                       uint64_t address, uint64_t bytes, uint32_t access);
/* The memory behind an address of a region and how much of it lies in one piece. */
uint8_t *hca_region_at(const struct hca_region *region, uint64_t address, uint64_t *contiguous);
/* False where either range has no memory behind it: a file that was cut short. */
bool hca_copy(uint8_t *to, const uint8_t *from, uint64_t bytes);
/* Atomic for every CPU, too: adds, or swaps if equal; `before` is what was there. */
bool hca_atomic(uint64_t *at, uint32_t opcode, uint64_t compare_add, uint64_t swap,
                uint64_t *before);
bool hca_store(uint64_t *at, uint64_t value);
void hca_memory_guard(void); /* once a process */
/* A descriptor with which mappings are watched for absent pages; -1 where there is none. */
int hca_absent_open(void);
/* Makes touching an absent page of a mapping SIGBUS instead of a page that this process is charged
 * for; false with errno set. */
bool hca_absent_watch(int absent_fd, void *base, uint64_t bytes);

/* windows.c: carried out in the requester's turn; a status of verbs. */
struct hca_window *hca_window_of(const struct hca *hca, uint32_t key);
uint32_t hca_bind(struct hca *hca, const struct hca_qp *qp, const tessera_hca_send_slot *send);
/* Whether a queue pair may invalidate a key. */
bool hca_may_invalidate(const struct hca *hca, const struct hca_qp *qp, uint32_t key);
void hca_invalidate(const struct hca *hca, uint32_t key);
/* The region that a peer's request may reach by a key, its own or a window's; `address` becomes one
 * of the region. */
const struct hca_region *hca_reach(struct hca *hca, const struct hca_qp *qp, uint32_t key,
                                   uint64_t *address, uint64_t bytes, uint32_t access);

/* receives.c: where a message goes. */
enum hca_taken { HCA_TAKEN, HCA_TAKEN_NONE, HCA_TAKEN_BROKEN };
/* Takes the next receive request of a queue pair into its `held`, if it holds none. */
enum hca_taken hca_take(struct hca *hca, struct hca_qp *qp);

/* complete.c */
/* False where the queue is full; an event says so. */
bool hca_complete(struct hca_cq *cq, const tessera_hca_cqe *entry, bool solicited);
/* Notifies of queues that were armed while they had entries, as hardware does: of some of them; false
 * where there are more. */
bool hca_rearm(struct hca_client *client, int64_t least_credit);
void hca_event(struct hca_client *client, uint32_t type, uint32_t handle);

/* policy.c: gives a queue pair or an address handle its policy; whoever waits looks again. */
void hca_policy_set(struct hca *hca, const tessera_hca_policy_change *change);

/* turn.c: one turn of a queue pair; true where it has more to do at once. */
bool hca_turn(struct hca *hca, struct hca_qp *qp);
/* peers.c: the queue pair at the other end, if both ends agree that they are connected. */
struct hca_qp *hca_peer(struct hca *hca, const struct hca_qp *qp);
bool hca_has_gid(const struct hca_client *client, const uint8_t *gid);
/* Whether a queue pair's partition is another's, and one of both is a full member. */
bool hca_same_partition(const struct hca_qp *one, const struct hca_qp *other);
bool hca_receives(const struct hca_qp *qp);
/* outcome.c */
void hca_fail(struct hca *hca, struct hca_qp *qp);

/* wire.c. After a change of attributes, from those `before`: a queue pair whose peer is elsewhere gets
 * a wire, if there is one from its address; false without memory. */
bool hca_wire_set(struct hca *hca, struct hca_qp *qp, const tessera_hca_qp_attributes *before);
void hca_wire_leave(struct hca *hca, struct hca_qp *qp);
/* Whether a request is under way over the wire. */
bool hca_wire_is_busy(const struct hca_qp *qp);
bool hca_wire_turn(struct hca *hca, struct hca_qp *qp);
bool hca_wire_poll(struct hca *hca); /* true where something came */
void hca_wire_end(struct hca *hca);
/* addresses/handover.c. False: no memory, or no wire of its address. */
void hca_wire_save(const struct hca_qp *qp, tessera_hca_saved_wired *saved);
bool hca_wire_load(struct hca *hca, struct hca_qp *qp, const tessera_hca_saved_wired *saved);
/* wire/pace.c: a queue pair with a wire sends no more. */
void hca_wire_stop(struct hca *hca, struct hca_qp *qp);

static inline void hca_enter(struct hca *hca) {
  atomic_fetch_add(&hca->callers, 1);
  pthread_mutex_lock(&hca->lock);
  atomic_fetch_add(&hca->entered, 1);
  atomic_fetch_sub(&hca->callers, 1);
}

static inline void hca_leave(struct hca *hca) { pthread_mutex_unlock(&hca->lock); }

#endif
