/* What the engine's files share. Everything here is used with the engine's lock held. */
#ifndef HCA_INTERNAL_H
#define HCA_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "policy.h"
#include "table.h"
#include "tessera_hca.h"

struct hca_client {
  struct hca_client *next;
  tessera_hca_client_page *page; /* hostile */
  int doorbell_fd, async_fd;
  uint8_t gids[TESSERA_HCA_GIDS][16];
  uint16_t pkeys[TESSERA_HCA_PKEYS]; /* 0: none */
  struct hca_cq *cqs;
  struct hca_qp *qps[TESSERA_HCA_MAX_QPS];
  struct hca_srq *srqs[TESSERA_HCA_MAX_SRQS];
};

struct hca_cq {
  struct hca_cq *next;
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
  bool queued;
  struct hca_qp *next_queued;
  struct hca_qp *next_waiting, *previous_waiting;
  struct hca_wired *wired; /* NULL: not connected over a wire */
  uint64_t frame;          /* the last that it was given: several rules may name it */
};

enum { HCA_PAIR_LISTS = 64, HCA_GROUP_LISTS = 64 };

struct hca {
  pthread_t thread;
  pthread_mutex_t lock;
  atomic_uint callers; /* that want the lock */
  atomic_bool ending;
  bool held; /* no turns: its state is being handed over, or not complete yet */
  pthread_cond_t released;
  int epoll_fd, wake_fd;
  int absent_fd; /* tells of pages that are not there; -1: the kernel has no such thing */
  struct hca_client *clients;
  struct hca_table qps, regions;
  struct hca_table windows; /* by the upper 24 bits of their keys */
  struct hca_table ahs;
  struct hca_member *members[HCA_GROUP_LISTS];
  struct hca_pair *pairs[HCA_PAIR_LISTS];
  struct hca_steer *steers; /* the most urgent first */
  uint64_t frames;          /* that raw packet queue pairs have sent */
  uint64_t next_serial;
  uint8_t datagram[TESSERA_HCA_GRH_BYTES + TESSERA_HCA_MAX_DATAGRAM_BYTES]; /* or a frame */
  struct hca_qp *first_queued, *last_queued;
  struct hca_qp *first_waiting;
  atomic_ullong sleeps, turns;
  struct hca_wire *wires;
  struct hca_wired *wire_noted;  /* whose answers are due */
  struct wire_batch *wire_batch; /* NULL until there is a wire, like what follows */
  uint8_t *wire_room;
  int wire_epoll_fd;
  int asks_fd; /* eventfd: somebody is to be judged */
  bool judged; /* somebody was, whose datagrams wait */
  struct hca_pacing *pacing; /* NULL: there are no QoS classes */
};

/* queue.c: whose turn it is. */
/* The engine may sleep; it looks at its queue again. */
void hca_ring(struct hca *hca);
void hca_enqueue(struct hca *hca, struct hca_qp *qp);
struct hca_qp *hca_dequeue(struct hca *hca);
void hca_wait_until(struct hca *hca, struct hca_qp *qp, enum hca_wait why, uint64_t wake_ns);
void hca_wait_end(struct hca *hca, struct hca_qp *qp);
/* Queues who has waited long enough; returns when the next one has, or UINT64_MAX. */
uint64_t hca_wake_due(struct hca *hca, uint64_t now_ns);
void hca_forget(struct hca *hca, struct hca_qp *qp);

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
/* Wakes who waits for a request of a shared receive queue. */
void hca_srq_posted(struct hca *hca, struct hca_srq *srq);

/* complete.c */
/* False where the queue is full; an event says so. */
bool hca_complete(struct hca_cq *cq, const tessera_hca_cqe *entry, bool solicited);
/* Notifies of queues that were armed while they had entries: as hardware does. */
void hca_rearm(struct hca_client *client);
void hca_event(struct hca_client *client, uint32_t type, uint32_t handle);

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

/* wire.c. After a change of state: a queue pair whose peer is elsewhere gets a wire, if there is one
 * from its address; false without memory. */
bool hca_wire_set(struct hca *hca, struct hca_qp *qp, uint32_t from);
void hca_wire_leave(struct hca *hca, struct hca_qp *qp);
/* Whether a request is under way over the wire. */
bool hca_wire_is_busy(const struct hca_qp *qp);
bool hca_wire_turn(struct hca *hca, struct hca_qp *qp);
bool hca_wire_poll(struct hca *hca); /* true where something came */
void hca_wire_end(struct hca *hca);
/* wire_handover.c. False: no memory, or no wire of its address. */
void hca_wire_save(const struct hca_qp *qp, tessera_hca_saved_wired *saved);
bool hca_wire_load(struct hca *hca, struct hca_qp *qp, const tessera_hca_saved_wired *saved);
/* wire_pace.c: a queue pair with a wire sends no more. */
void hca_wire_stop(struct hca *hca, struct hca_qp *qp);

static inline void hca_enter(struct hca *hca) {
  atomic_fetch_add(&hca->callers, 1);
  pthread_mutex_lock(&hca->lock);
  atomic_fetch_sub(&hca->callers, 1);
}

static inline void hca_leave(struct hca *hca) { pthread_mutex_unlock(&hca->lock); }

#endif
