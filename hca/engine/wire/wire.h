/* The wire: queue pairs whose peers another engine has, and the sockets that lead there.
 *
 * Everything here is used with the engine's lock held. What comes from a packet is hostile. */
#ifndef HCA_WIRE_H
#define HCA_WIRE_H

#include "base/internal.h"
#include "wire/pace.h"
#include "packets/packet.h"

enum {
  WIRE_LANES = TESSERA_HCA_WIRE_LANES, /* sockets of an address that differ in their port */
  WIRE_BATCH = 64,   /* packets that are made, sent or received at a time */
  WIRE_REQUESTS = 64, /* of a queue pair that are under way */
  WIRE_READS = TESSERA_HCA_WIRE_READS, /* the same, READs alone: responder resources */
  WIRE_LEAST_ROOM = 8, /* packets of a queue pair that are under way: at most so many ... */
  WIRE_MOST_ROOM = 1024,
  WIRE_FAIR_ROOM = 256, /* ... of which a queue pair keeps so many, however many share it */
  WIRE_SOURCE_LISTS = 64,
  WIRE_PACKET_COST = 1280, /* ... as a socket's buffer holds twice, with what the kernel adds */
};

/* What packets come by: the socket of an address of ours, or of a group that it is in. */
struct wire_port {
  struct hca_wire *wire;
  int fd;
  const uint8_t *destination; /* of all that comes by it: a GID */
  unsigned at_once;           /* messages to receive next: fewer where they were long */
};

struct wire_group {
  struct wire_group *next;
  struct wire_port port;
  uint8_t gid[16];
};

/* An address of ours. */
struct hca_wire {
  struct hca_wire *next;
  struct wire_port own;
  struct wire_group *groups;
  uint8_t gid[16];
  uint32_t scope; /* of a link-local address */
  unsigned lanes;
  int fds[WIRE_LANES]; /* the first receives */
  uint16_t ports[WIRE_LANES];
  uint32_t room_bytes; /* of the socket that receives; the peer's is taken to be like it */
  unsigned pairs;      /* that are connected over it */
  struct hca_wired *first_pair;
  bool segments; /* the kernel cuts and joins buffers: UDP_SEGMENT, UDP_GRO */
  uint32_t mtu;  /* of the interface: the longest datagram */
  int mad_fd;    /* hcad's pipe; -1: it wants none */
  uint32_t mad_psn;
  tessera_hca_wire_counts counts;
  struct wire_source *sources[WIRE_SOURCE_LISTS]; /* whose datagrams were judged */
  struct wire_held *held;                         /* whose were not yet, the oldest first */
  unsigned held_count;
  struct hca_wired *datagrams; /* where the one goes that is being sent */
  struct hca_bucket port; /* of everything that is sent; without a rate: no limit */
  struct hca_bucket ceilings[TESSERA_HCA_QOS_CLASSES + 1];
};

/* A request that was taken out of the ring and is not complete yet. */
struct wire_request {
  tessera_hca_send_slot send; /* the one copy that is checked and used */
  uint32_t status;            /* of verbs; not SUCCESS: it is not sent */
  uint32_t bytes, first_psn, packets;
};

struct wire_requester {
  uint32_t tail, head; /* of the ring: under way */
  uint32_t sending;    /* the request that the next packet is of */
  uint32_t free_psn;   /* of the next request that is taken */
  uint32_t oldest_psn, next_psn, top_psn; /* not answered yet; to be sent; never sent yet */
  uint32_t window, room; /* packets under way: at most now, and at most ever */
  uint32_t answered;     /* packets since the window grew */
  unsigned retries, pauses, refusals; /* since there was progress */
  uint64_t deadline_ns; /* 0: nothing is under way */
  bool paused;          /* by the peer, until then */
  uint64_t resume_ns;   /* by policy's ceilings: until then; 0: not at all */
  unsigned read_count;
  uint32_t read_ends[WIRE_READS]; /* PSNs behind what was asked for */
  struct wire_request requests[WIRE_REQUESTS];
};

/* A READ, or an atomic that was carried out, that is being answered. */
struct wire_reading {
  uint32_t psn, key, bytes, done;
  uint64_t address; /* of an atomic: what was there before */
  bool atomic;
};

/* What atomics have found: whoever asks for one again is told, and nothing is done again. */
struct wire_results {
  unsigned count, next; /* a ring of all places: how many are kept may change while it drains */
  struct {
    uint32_t psn;
    uint64_t before;
  } of[WIRE_READS];
};

struct wire_responder {
  uint32_t psn, msn; /* expected; messages that are complete */
  uint32_t last_psn; /* of the packet before, in order or not */
  bool refused;      /* a gap was reported */
  bool answers;      /* an acknowledgement is due */
  bool noted;        /* in the list of those whose answers are due */
  enum wire_kind message; /* that is under way */
  uint32_t key, bytes, done;
  uint64_t address;
  unsigned reading_first, reading_count;
  struct wire_reading reading[WIRE_READS];
  struct wire_results results;
};

/* What a queue pair has that is connected over a wire. */
struct hca_wired {
  struct hca_wire *wire;
  struct wire_path path; /* of what is sent */
  unsigned lane;
  uint32_t mtu;
  struct hca_wired *next_noted;
  struct hca_wired *next_pair, *previous_pair; /* of its wire */
  struct hca_qp *qp; /* NULL: datagrams */
  uint8_t tos;       /* of datagrams */
  struct wire_requester requester;
  struct wire_responder responder;
  struct wire_pace pace;
  struct wire_congestion congestion;
};

/* wire.c: connects a queue pair over its address's wire, at its beginning. False: no memory. */
bool wire_join(struct hca_wire *wire, struct hca_qp *qp);

/* What a packet is for, and where it lies in the buffer. */
struct wire_out {
  struct hca_wired *wired;
  uint32_t offset, bytes; /* with ICRC */
  uint8_t opcode, tos;
};

struct wire_batch {
  unsigned count;
  uint32_t used;
  struct wire_out out[WIRE_BATCH];
  uint8_t data[WIRE_BATCH * WIRE_MAX_PACKET];
};

/* wire/send.c. A packet's payload is written where wire_begin() says; it may be given up before
 * wire_end(). */
uint8_t *wire_begin(struct hca *hca, struct hca_wired *wired, const struct wire_packet *packet);
void wire_end(struct hca *hca, struct hca_wired *wired, const struct wire_packet *packet);
/* Sends what was made; returns how many packets of it the kernel has no room for now: the last. */
unsigned wire_flush(struct hca *hca);
/* addresses/receive.c: hands what came to hca_wire_take(); true where something did. */
bool wire_receive(struct hca *hca, struct wire_port *port);

/* wire/groups.c: after its address; nothing is received any more. */
void wire_groups_end(struct hca_wire *wire);

/* wire/target.c: the connected queue pair that a packet may be for: of this wire, from its peer's
 * address, and of its partition. NULL, and counted: there is none. */
struct hca_qp *wire_target(struct hca *hca, struct hca_wire *wire, const struct wire_path *path,
                           uint32_t qpn, uint16_t pkey);
/* wire/ways.c: which of the ports that there are a flow label says, or without one two queue pairs. */
unsigned wire_lane_of(const struct hca_wire *wire, uint32_t label, uint32_t own, uint32_t other);
/* The wire that leads from an address of `client` to another; NULL: none does, or it is here. */
struct hca_wire *hca_wire_towards(const struct hca *hca, const struct hca_client *client,
                                  unsigned sgid_index, const uint8_t *dgid);
struct hca_wire *wire_of(const struct hca *hca, const struct hca_client *client,
                         unsigned sgid_index);
/* An address that this engine serves itself: its queue pairs reach each other without a wire. */
bool wire_is_here(const struct hca *hca, const uint8_t *gid);

/* wire/datagram.c */
void wire_take_datagram(struct hca *hca, struct hca_wire *wire, const struct wire_path *path,
                        unsigned part, const struct wire_packet *packet, const uint8_t *data,
                        size_t bytes);

/* wire/sources.c */
/* What somebody may send here; NULL: it was not judged yet, and the packet waits. */
const struct hca_policy *wire_source_of(struct hca *hca, struct hca_wire *wire,
                                        const struct wire_path *path, unsigned part,
                                        const uint8_t *data, size_t bytes);
/* A datagram that is sound, and for a queue pair that would take it. */
struct wire_held {
  struct wire_held *next;
  struct wire_path path;
  bool asked;
  unsigned part;
  size_t bytes;
  uint8_t data[];
};

/* What waits from somebody who is judged by now, in its order, to be freed; NULL: nothing does. */
struct wire_held *wire_take_known(struct hca_wire *wire);
void wire_held_free(struct wire_held *held);
void wire_sources_end(struct hca_wire *wire);

/* addresses/admit.c: judges one packet from `path->source`, part number `part` of what came together, and
 * carries it out. */
void hca_wire_take(struct hca *hca, struct hca_wire *wire, const struct wire_path *path,
                   unsigned part, const uint8_t *data, size_t bytes);
/* Takes what has waited for a judgement that is there now. */
void wire_take_judged(struct hca *hca);

/* wire/mad.c: takes what is for queue pair 1; false: it is for another. */
bool wire_take_mad(struct hca_wire *wire, const struct wire_path *path, unsigned part,
                   const struct wire_packet *packet, const uint8_t *data, size_t bytes);

/* connections/payload.c: false where a region is not there, or does not allow it. */
bool wire_gather(struct hca *hca, const struct hca_qp *qp, const tessera_hca_send_slot *send,
                 uint32_t offset, uint32_t bytes, uint8_t *to);
bool wire_scatter(struct hca *hca, const struct hca_qp *qp, const tessera_hca_sge *sges,
                  unsigned count, uint32_t offset, const uint8_t *from, uint32_t bytes);
bool wire_load(struct hca *hca, const struct hca_qp *qp, uint64_t address, uint32_t key,
               uint32_t bytes, uint8_t *to);
bool wire_store(struct hca *hca, const struct hca_qp *qp, uint64_t address, uint32_t key,
                const uint8_t *from, uint32_t bytes);

static inline struct wire_request *wire_request_at(struct wire_requester *requester,
                                                   uint32_t index) {
  return &requester->requests[index % WIRE_REQUESTS];
}

static inline bool wire_is_read(const struct wire_request *request) {
  return tessera_is_one_of(TESSERA_OPERATIONS_READ, request->send.opcode);
}

/* What the peer answers with data. */
static inline bool wire_is_answered(const struct wire_request *request) {
  return tessera_is_one_of(TESSERA_OPERATIONS_READ | TESSERA_OPERATIONS_ATOMIC,
                           request->send.opcode);
}

/* What nothing is sent of: a window that is bound, or what policy drops where nobody is told. */
static inline bool wire_is_silent(const struct wire_request *request) {
  return request->status == TESSERA_VERBS_STATUS_SUCCESS && request->packets == 0;
}

static inline bool wire_is_unreliable(const struct hca_qp *qp) {
  return qp->type == TESSERA_VERBS_QP_TYPE_UC;
}

/* connections/requests.c: takes requests out of the ring, and gives them their PSNs. */
void wire_take_requests(struct hca *hca, struct hca_qp *qp);
/* Makes the next packet; returns how many PSNs it takes, 0 where nothing may be sent now. */
uint32_t wire_make_next(struct hca *hca, struct hca_qp *qp);

/* connections/requester.c */
void wire_requester_begin(struct hca_qp *qp);
/* Goes on where a predecessor was: requests are taken out of the ring again, from `first_psn` on;
 * sending goes on with `oldest_psn`, which may be in the middle of the first of them. */
void wire_requester_resume(struct hca_qp *qp, const tessera_hca_saved_wired *saved);
/* Sends what may be sent; true where more could be at once. */
bool wire_request(struct hca *hca, struct hca_qp *qp);
void wire_acknowledged(struct hca *hca, struct hca_qp *qp, const struct wire_packet *packet);
void wire_read_response(struct hca *hca, struct hca_qp *qp, const struct wire_packet *packet);

/* wire/ceiling.c. New tables forbid the request that the next packet is of. */
void wire_deny(struct hca *hca, struct hca_qp *qp, struct wire_request *request);
/* Whether the next packet has to wait for its flow's ceilings. */
bool wire_is_held_back(struct hca_qp *qp);
/* The next `packets` PSNs, of `request`, are used. */
void wire_spend(struct hca_qp *qp, const struct wire_request *request, uint32_t packets);
/* When a requester goes on though nothing comes; 0: not at all. */
uint64_t wire_wake_ns(struct wire_requester *requester);

/* connections/own.c: carries out what stands first and is not sent; false where that ends the queue
 * pair. */
bool wire_end_silent(struct hca *hca, struct hca_qp *qp);

/* connections/atomic.c */
void wire_keep_result(struct hca_qp *qp, uint32_t psn, uint64_t before);
struct wire_packet wire_ask_atomic(const tessera_hca_send_slot *send);
void wire_carry_out_atomic(struct hca *hca, struct hca_qp *qp, const struct wire_packet *packet);
/* Answers again what was carried out before. */
void wire_repeat_atomic(struct hca *hca, struct hca_qp *qp, const struct wire_packet *packet);

/* connections/unreliable.c: what comes of an unreliable connection. */
void wire_respond_unreliably(struct hca *hca, struct hca_qp *qp, const struct wire_packet *packet);

/* connections/answers.c */
void wire_note(struct hca *hca, struct hca_wired *wired);
void wire_send_answer(struct hca *hca, struct hca_qp *qp, uint32_t psn, uint8_t syndrome);
/* Answers READs, as many packets as there is room for; true where more are to be made. */
bool wire_answer_reads(struct hca *hca, struct hca_qp *qp);
/* Acknowledges what came, if nothing has to be answered before. */
void wire_answer(struct hca *hca, struct hca_qp *qp);
void wire_will_answer(struct hca *hca, struct hca_qp *qp);
/* How many READs and atomics a peer may have under way. */
unsigned wire_most_answers(const struct hca_qp *qp);
void wire_add_answer(struct hca *hca, struct hca_qp *qp, struct wire_reading reading);
/* Forgets answers that are not sent yet, from a PSN on: they are asked for again. */
void wire_forget_answers(struct hca_qp *qp, uint32_t psn);
/* Ends the queue pair, and tells the peer why; `event` tells its owner, -1: nothing does. */
void wire_refuse(struct hca *hca, struct hca_qp *qp, enum wire_nak reason, int event);

/* connections/responder.c */
void wire_responder_begin(struct hca_qp *qp);
/* The queue pair has another peer: forgets what the one before asked for; PSNs go on. */
void wire_responder_go_on(struct hca_qp *qp);
void wire_respond(struct hca *hca, struct hca_qp *qp, const struct wire_packet *packet);
/* Whether a packet may come at this place of a message, with this length. */
bool wire_fits(const struct hca_qp *qp, const struct wire_packet *packet);
bool wire_may_reach(struct hca *hca, const struct hca_qp *qp, const struct wire_packet *packet,
                    uint32_t access, uint32_t bytes);
void wire_end_receive(struct hca *hca, struct hca_qp *qp, const struct wire_packet *packet,
                      uint32_t status);

/* As the table of partition keys is now. */
static inline uint16_t wire_pkey(const struct hca_qp *qp) {
  return qp->client->pkeys[qp->attributes.pkey_index % TESSERA_HCA_PKEYS];
}

/* Whether a packet may have to wait for anything but its window. */
static inline bool wire_is_paced(const struct hca *hca, const struct hca_wired *wired) {
  return hca->pacing || wired->congestion.limited || wired->wire->port.per_ns != 0;
}

/* Whether the next packet has to wait; asked again it says the same. */
static inline bool wire_pace_holds(struct hca *hca, struct hca_qp *qp) {
  return wire_is_paced(hca, qp->wired) && wire_pace_asks(hca, qp);
}

/* The packet that was made last is sent. */
static inline void wire_pace_spend(struct hca *hca, struct hca_qp *qp) {
  qp->wired->congestion.sent += qp->wired->congestion.sent < WIRE_MOST_NOTED;
  if (wire_is_paced(hca, qp->wired)) wire_pace_charge(hca, qp);
}

/* Whether the function being served may send more; a turn always sends something. */
static inline bool wire_has_credit(const struct hca *hca) {
  return !hca->charged || hca->charged->credit > 0;
}

static inline uint32_t wire_packets(uint32_t bytes, uint32_t mtu) {
  return bytes ? (bytes + mtu - 1) / mtu : 1;
}

#endif
