/* Internal structures and functions of the engine. All are used with the engine's lock held. */
#ifndef HCA_INTERNAL_H
#define HCA_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/doorbell.h"
#include "base/policy.h"
#include "base/table.h"
#include "tessera_hca.h"

/* All programs of one pod on one device: the unit of scheduling (share.c). */
struct hca_function {
  struct hca_function *next, *next_ready;
  uint8_t gids[TESSERA_HCA_GIDS][16]; /* the second identifies the function */
  struct hca_client *clients;
  struct hca_bells bells;
  int64_t credit; /* units of work left in its quantum; negative: a debt */
  bool ready;     /* in the list of ready functions */
  bool begun;     /* its turn was interrupted, and will be continued */
  struct hca_qp *first_queued, *last_queued;
  struct hca_qp **timers; /* a heap, ordered by wake-up time */
  uint32_t timer_count, timer_room, qp_count;
  struct hca_qp *first_paced, *last_paced; /* wait for a rate or a wire, oldest first */
  struct hca_srq *first_posted, *last_posted; /* whose waiting requesters are to be queued */
  uint64_t ready_since; /* hca->work when it became ready */
  atomic_ullong rounds; /* turns that ended, and passes that found no work */
  tessera_hca_work_counts counts;
};

struct hca_client {
  struct hca_client *next, *previous; /* within its function */
  struct hca *hca;
  struct hca_function *function;
  struct hca_bell bell;
  tessera_hca_client_page *page; /* written by the client: untrusted */
  unsigned word, srq_word;       /* of its page: to be read next */
  struct hca_cq *rearm_next;     /* the next armed queue to look at; NULL: the first */
  uint32_t rearm_left, cq_count;
  int doorbell_fd, async_fd;
  bool ended; /* its objects are being removed: they transfer no data any more */
  uint8_t gids[TESSERA_HCA_GIDS][16];
  uint16_t pkeys[TESSERA_HCA_PKEYS]; /* 0: empty */
  struct hca_cq *cqs;
  struct hca_qp *qps[TESSERA_HCA_MAX_QPS];
  struct hca_srq *srqs[TESSERA_HCA_MAX_SRQS];
};

struct hca_cq {
  struct hca_cq *next, *previous;
  struct hca_client *client;
  uint32_t handle;
  tessera_hca_cq_page *page; /* written by the client, like the entries */
  tessera_hca_cqe *entries;
  uint64_t page_bytes;
  uint32_t count, head, events;
  int notify_fd; /* -1: none */
  bool overrun;
};

struct hca_segment {
  uint8_t *base;
  uint64_t bytes;
  bool ended; /* no request reaches it any more; its regions are being removed */
};

struct hca_piece {
  const struct hca_segment *segment;
  uint64_t offset, bytes;
  uint64_t start; /* offset of the piece in the region */
};

struct hca_region {
  struct hca_client *client;
  uint64_t serial; /* unique: keys are reused */
  uint32_t key, pd, access;
  uint64_t iova, bytes;
  unsigned piece_count;
  struct hca_piece pieces[];
};

/* A memory window: the part of a region that it opens while it is bound. */
struct hca_window {
  struct hca_client *client;
  uint32_t key, pd, type;
  bool bound;
  uint32_t region_key, qpn, access; /* qpn: the queue pair through which it was bound */
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
  tessera_hca_srq_page *page; /* written by the client, like the slots */
  tessera_hca_recv_slot *slots;
  uint64_t page_bytes;
  uint32_t handle, index, count, tail, limit;
  bool broken;
  /* the requesters that wait for one of its receive requests */
  struct hca_qp *first_waiter, *last_waiter;
  uint32_t waiters, wake_left;               /* how many of the waiters are still to be queued */
  bool posted;                               /* in its function's list */
  struct hca_srq *next_posted, *previous_posted;
};

/* A queue pair's membership of a multicast group. */
struct hca_member {
  struct hca_member *next; /* the list may contain other groups, too */
  struct hca_qp *qp;
  uint8_t gid[16];
  bool open; /* no policy applies: it receives from every sender */
};

/* A sender and a group member of this engine that may receive from it; holds hcad's verdict for
 * the two. */
struct hca_pair {
  /* first, because hca_policies_set() treats a pair as an address handle; its address is the
   * sender's */
  struct hca_ah ah;
  struct hca_pair *next;
  uint8_t member[16];
};

/* A steering rule: which frames go to which raw packet queue pairs. */
struct hca_steer {
  struct hca_steer *next; /* of lower or the same priority */
  tessera_hca_steer_create wanted;
  struct hca_qp *targets[TESSERA_HCA_STEER_TARGETS];
};

/* A position in a scatter-gather list. */
struct hca_cursor {
  const tessera_hca_sge *sges;
  unsigned count, index;
  uint32_t offset;
};

/* The request that a queue pair is executing. */
struct hca_work {
  bool active;
  bool denied; /* by policy, and counted */
  bool admitted; /* a datagram that policy has allowed and counted */
  bool receives; /* `recv` is the peer's next receive request */
  uint32_t bytes, done;
  tessera_hca_send_slot send; /* copied once from the ring, then checked and used */
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
  tessera_hca_qp_page *page; /* written by the client, like the slots */
  tessera_hca_send_slot *send_slots;
  tessera_hca_recv_slot *recv_slots;
  uint64_t page_bytes;
  uint32_t number, index, pd, send_count, recv_count, send_tail, recv_tail;
  bool signal_all, block_self;
  bool broken; /* an index in its rings was invalid: they are not read any more */
  tessera_hca_qp_attributes attributes;
  struct hca_policy policy;
  struct hca_work work;
  bool holds; /* `held` belongs to a message that is not complete */
  tessera_hca_recv_slot held;
  bool drained;       /* in SQD, and the event has been sent */
  bool said_last_wqe; /* in ERR with a shared receive queue, and the event has been sent */
  enum hca_wait waiting;
  unsigned waits; /* consecutive waits for the same reason */
  uint64_t wake_ns;
  bool queued, timed, paced;
  struct hca_qp *next_queued, *previous_queued;
  uint32_t timer; /* its index in the heap, while `timed` */
  struct hca_qp *next_paced, *previous_paced;
  uint64_t paced_generation;
  struct hca_srq *awaited; /* the shared receive queue for which it waits; NULL: none */
  struct hca_qp *next_waiter, *previous_waiter;
  struct hca_wired *wired; /* NULL: not connected over a wire */
  uint64_t frame; /* number of the last frame delivered to it: several rules may name it */
};

enum { HCA_PAIR_LISTS = 64, HCA_GROUP_LISTS = 64 };

struct hca {
  pthread_t thread;
  pthread_mutex_t lock;
  atomic_uint callers; /* threads that want the lock */
  atomic_uint entered; /* how often a caller has acquired the lock */
  atomic_bool ending;
  bool held; /* no turns run: the state is being handed over or loaded */
  pthread_cond_t released;
  int epoll_fd, wake_fd;
  int absent_fd; /* userfaultfd for absent pages; -1: the kernel has none */
  struct hca_table qps, regions;
  struct hca_table windows; /* by the upper 24 bits of their keys */
  struct hca_table ahs;
  struct hca_member *members[HCA_GROUP_LISTS];
  struct hca_pair *pairs[HCA_PAIR_LISTS];
  struct hca_steer *steers; /* highest priority first */
  uint64_t frames;          /* sent by raw packet queue pairs so far */
  uint64_t next_serial;
  /* scratch buffer for a datagram or a frame */
  uint8_t datagram[TESSERA_HCA_GRH_BYTES + TESSERA_HCA_MAX_DATAGRAM_BYTES];
  struct hca_function *functions;
  struct hca_table numbered; /* functions, by their bells' numbers */
  uint32_t last_number;
  uint32_t polled_count; /* programs that the engine polls */
  uint64_t bells_ns;     /* when it last checked for rings */
  struct hca_function unowned; /* for addresses that no client has */
  struct hca_function *first_ready, *last_ready;
  struct hca_function *charged; /* the function that pays for the current work; NULL: none */
  uint32_t waiting_count;
  uint64_t policy_generation; /* waiting queue pairs with an older one check again */
  uint64_t work, most_pass; /* units done so far, and the most in one iteration */
  atomic_ullong sleeps, turns;
  struct hca_wire *wires;
  struct hca_wired *wire_noted;  /* connections with responses to send */
  struct wire_batch *wire_batch; /* NULL until the first wire, like the fields below */
  uint8_t *wire_room;
  int wire_epoll_fd;
  int sources_fd; /* eventfd: a sender waits for a verdict */
  bool sources_evaluated; /* a sender with waiting datagrams has a verdict now */
  struct hca_pacing *pacing; /* NULL: there are no QoS classes */
  uint64_t pacing_number;
};

/* Costs of work, in units; a unit is about the time that it takes to copy a byte. */
enum {
  HCA_QUANTUM = 256 << 10,     /* per turn of a function */
  HCA_TURN_BYTES = 64 << 10,   /* per turn of a queue pair */
  HCA_WALK_COST = 32 << 10,    /* per walk over a function's objects in a turn */
  HCA_TURN_COST = 512,         /* a queue pair's turn, whatever it does */
  HCA_REQUEST_COST = 1024,     /* a request, or a completion without one */
  HCA_PART_COST = 256,         /* a scatter-gather element, or a piece of a region */
  HCA_STEP_COST = 256,         /* an object that a walk visits */
  HCA_CALL_COST = 4096,        /* a system call: an event, a notification */
  HCA_PACKET_COST = 2048,      /* a packet: its checksum is computed or verified */
};

/* Charge the function on whose behalf the engine works. */
static inline void hca_charge(struct hca *hca, uint64_t cost) {
  if (!hca->charged) return;
  hca->charged->credit -= (int64_t)cost;
  hca->charged->counts.cost += cost;
  hca->work += cost;
}

/* function.c: programs that share a turn. */
/* Add a client to its function, which is created if needed; false without memory. */
bool hca_function_join(struct hca *hca, struct hca_client *client);
void hca_function_leave(struct hca *hca, struct hca_client *client);
/* Find the function of an address; never NULL. */
struct hca_function *hca_function_of(struct hca *hca, const uint8_t *gid);
/* Reserve room for one more queue pair's timer; false without memory. */
bool hca_function_grow(struct hca_function *function);

/* share.c: deficit round robin over functions. */
/* Make the functions that have work ready; returns whether any is ready. `*wake_ns`: when the
 * next one will have work, or UINT64_MAX. */
bool hca_find_ready(struct hca *hca, uint64_t now_ns, uint64_t *wake_ns);
/* Give ready functions their turns, until about a quantum's work is done. */
void hca_serve(struct hca *hca, uint64_t now_ns);

/* collect.c: read the bits that a function's programs have set in their pages. */
void hca_collect(struct hca *hca, struct hca_function *function);

/* queue.c: the order in which a function's queue pairs are served. */
/* Wake the engine's thread if it sleeps. */
void hca_ring(struct hca *hca);
/* Add a function to the list of ready functions. */
void hca_make_ready(struct hca *hca, struct hca_function *function);
void hca_enqueue(struct hca *hca, struct hca_qp *qp);
struct hca_qp *hca_dequeue(struct hca_function *function);
void hca_unqueue(struct hca_qp *qp);

/* wait.c: waiting queue pairs. */
void hca_wait_until(struct hca *hca, struct hca_qp *qp, enum hca_wait why, uint64_t wake_ns);
/* Wait for a receive request of a shared queue, but no longer than until the given time. */
void hca_wait_for_srq(struct hca *hca, struct hca_qp *qp, struct hca_srq *srq, uint64_t wake_ns);
void hca_wait_end(struct hca *hca, struct hca_qp *qp);
/* End a queue pair's wait and remove it from its function's queue. */
void hca_forget(struct hca *hca, struct hca_qp *qp);
/* Remove requesters from a shared receive queue's list; false: more are left. */
bool hca_leave_srq(struct hca_srq *srq);
/* Make the function's turns queue the requesters that wait for a shared receive queue. */
void hca_srq_posted(struct hca_srq *srq);
void hca_srq_forget(struct hca_srq *srq);
/* When the first waiting queue pair of a function is due; UINT64_MAX: none waits. */
uint64_t hca_next_wake_ns(const struct hca_function *function);
/* Whether hca_wake() has queue pairs to queue other than those with expired timers. */
bool hca_has_woken(const struct hca *hca, const struct hca_function *function);
/* Queue a function's queue pairs whose wait is over, and those that must check their policy
 * again. */
void hca_wake(struct hca *hca, struct hca_function *function, uint64_t now_ns);

/* memory.c */
/* Whether a range of `bytes` from `first` contains the `wanted` bytes that begin at an address. */
static inline bool hca_holds(uint64_t first, uint64_t bytes, uint64_t address, uint64_t wanted) {
  if (address < first || address - first > bytes) return false;
  return wanted <= bytes - (address - first);
}
const struct hca_region *hca_region_of(struct hca *hca, const struct hca_qp *qp, uint32_t key,
                                       uint64_t address, uint64_t bytes, uint32_t access);
/* Return the memory of an address in a region, and how many bytes from there are contiguous. */
uint8_t *hca_region_at(const struct hca_region *region, uint64_t address, uint64_t *contiguous);
/* Copy; false where one of the ranges has no memory, for example because its file was truncated. */
bool hca_copy(uint8_t *to, const uint8_t *from, uint64_t bytes);
/* Execute an atomic on memory, atomic with respect to all CPUs: fetch-and-add or
 * compare-and-swap; `before` is the previous value. */
bool hca_atomic(uint64_t *at, uint32_t opcode, uint64_t compare_add, uint64_t swap,
                uint64_t *before);
bool hca_store(uint64_t *at, uint64_t value);
void hca_memory_guard(void); /* call once per process */
/* Open a userfaultfd that watches mappings for absent pages; -1 where the kernel has none. */
int hca_absent_open(void);
/* Make access to an absent page of a mapping raise SIGBUS, instead of allocating a page that is
 * charged to this process; false with errno set. */
bool hca_absent_watch(int absent_fd, void *base, uint64_t bytes);

/* windows.c: executed in the requester's turn; returns a verbs status. */
struct hca_window *hca_window_of(const struct hca *hca, uint32_t key);
uint32_t hca_bind(struct hca *hca, const struct hca_qp *qp, const tessera_hca_send_slot *send);
/* Whether a queue pair may invalidate a key. */
bool hca_may_invalidate(const struct hca *hca, const struct hca_qp *qp, uint32_t key);
void hca_invalidate(const struct hca *hca, uint32_t key);
/* Find the region that a peer's request may access with a key of a region or of a window;
 * `address` is translated to the region's. */
const struct hca_region *hca_reach(struct hca *hca, const struct hca_qp *qp, uint32_t key,
                                   uint64_t *address, uint64_t bytes, uint32_t access);

/* receives.c: the receive request for a message. */
enum hca_taken { HCA_TAKEN, HCA_TAKEN_NONE, HCA_TAKEN_BROKEN };
/* Take the next receive request of a queue pair into its `held`, if it holds none. */
enum hca_taken hca_take(struct hca *hca, struct hca_qp *qp);

/* complete.c */
/* Add a completion; false where the queue is full, which raises an event. */
bool hca_complete(struct hca_cq *cq, const tessera_hca_cqe *entry, bool solicited);
/* Notify the queues that were armed while they had entries, as hardware does; false where more
 * such queues are left. */
bool hca_rearm(struct hca_client *client, int64_t least_credit);
void hca_event(struct hca_client *client, uint32_t type, uint32_t handle);

/* policy.c: set the policy of a queue pair or an address handle; waiting queue pairs check it
 * again. */
void hca_policy_set(struct hca *hca, const tessera_hca_policy_change *change);

/* turn.c: run one turn of a queue pair; true where it has more to do at once. */
bool hca_turn(struct hca *hca, struct hca_qp *qp);
/* peers.c: find the connected queue pair at the other end; both ends must name each other. */
struct hca_qp *hca_peer(struct hca *hca, const struct hca_qp *qp);
bool hca_has_gid(const struct hca_client *client, const uint8_t *gid);
/* Whether two queue pairs share a partition of which at least one is a full member. */
bool hca_same_partition(const struct hca_qp *one, const struct hca_qp *other);
bool hca_receives(const struct hca_qp *qp);
/* outcome.c */
void hca_fail(struct hca *hca, struct hca_qp *qp);

/* wire.c: apply a change of attributes; `before` are the previous ones. A queue pair whose peer
 * is on another node is connected to the wire of its address, if there is one; false without
 * memory. */
bool hca_wire_set(struct hca *hca, struct hca_qp *qp, const tessera_hca_qp_attributes *before);
void hca_wire_leave(struct hca *hca, struct hca_qp *qp);
/* Whether a request over the wire is in flight. */
bool hca_wire_is_busy(const struct hca_qp *qp);
bool hca_wire_turn(struct hca *hca, struct hca_qp *qp);
bool hca_wire_poll(struct hca *hca); /* true where packets have arrived */
void hca_wire_end(struct hca *hca);
/* addresses/handover.c. False: no memory, or no wire for its address. */
void hca_wire_save(const struct hca_qp *qp, tessera_hca_saved_wired *saved);
bool hca_wire_load(struct hca *hca, struct hca_qp *qp, const tessera_hca_saved_wired *saved);
/* wire/pace.c: end the pacing of a queue pair with a wire, which will send no more. */
void hca_wire_stop(struct hca *hca, struct hca_qp *qp);

static inline void hca_enter(struct hca *hca) {
  atomic_fetch_add(&hca->callers, 1);
  pthread_mutex_lock(&hca->lock);
  atomic_fetch_add(&hca->entered, 1);
  atomic_fetch_sub(&hca->callers, 1);
}

static inline void hca_leave(struct hca *hca) { pthread_mutex_unlock(&hca->lock); }

#endif
