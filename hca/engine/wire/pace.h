/* Pacing: when a queue pair may send its next packet, and with which DSCP. It implements QoS
 * classes and congestion control.
 *
 * hcad numbers its tables' classes from 1 and passes each queue pair's class with its policy. A
 * queue pair to which no class, no congestion and no competing class applies skips all of this.
 * The engine's lock is held throughout. */
#ifndef HCA_WIRE_PACE_H
#define HCA_WIRE_PACE_H

#include "base/internal.h"
#include "base/policy.h"

/* ECN: the lower two bits of IPv4's TOS and IPv6's traffic class (RFC 3168). */
enum wire_ecn { WIRE_ECN_NONE, WIRE_ECN_1, WIRE_ECN_0, WIRE_ECN_MARKED, WIRE_ECN_MASK = 3 };

enum {
  WIRE_STEP_COST = 32, /* work units of one rate increase */
  WIRE_MOST_NOTED = 256, /* sent packets for which notifications may still arrive */
  WIRE_CNP = 0x81, /* BTH opcode (IBTA annex A17) */
  /* the sockets' default; a packet with another value passes it as ancillary data */
  WIRE_USUAL_TOS = WIRE_ECN_0,
  WIRE_CNP_TOS = 48 << 2, /* CS6, as NICs use; not ECN-capable itself */
};

struct wire_class {
  tessera_hca_qos_class settings;
  struct hca_bucket least; /* has tokens while the class is below its guaranteed minimum */
  double served;           /* virtual time: bytes sent, divided by its weight */
  unsigned ready;          /* queue pairs that could send if other classes did not come first */
};

/* Entry 0 is for queue pairs without a class; its weight is 1. */
struct hca_pacing {
  uint64_t number; /* from 1; unique to this set of classes */
  unsigned count; /* 1: there are no classes */
  unsigned ready;
  struct wire_class classes[TESSERA_HCA_QOS_CLASSES + 1];
};

/* A queue pair's pacing state; initially zero. */
struct wire_pace {
  uint64_t now_ns;  /* when this turn began */
  uint64_t wake_ns; /* it must wait until then */
  bool wants;       /* it could send if other classes did not come first */
  uint64_t ready;   /* hca_pacing.number of the classes in whose `ready` it is counted; 0: none */
  unsigned ready_in;
};

/* State of a queue pair as a reaction point (DCQCN), and when it last notified its peer. */
struct wire_congestion {
  bool limited;
  uint32_t sent; /* packets for which no notification has arrived */
  uint64_t notified_ns, next_cut_ns, next_ns;
  unsigned times, volumes; /* timers and byte counters expired since the last notification */
  uint64_t bytes;          /* sent in the current byte counter period */
  double alpha, rate, target; /* rates in bytes per ns */
  struct hca_bucket bucket;
};

struct hca_wired;
struct wire_path;

/* wire/pace.c */
unsigned wire_class_of(const struct hca *hca, const struct hca_qp *qp);
/* Return a packet's TOS or traffic class. */
uint8_t wire_tos(const struct hca *hca, const struct hca_qp *qp, uint8_t opcode);
/* Begin and end a queue pair's turn. wire_pace_end() returns whether it needs another turn at
 * once, given whether there is `more` to send. */
void wire_pace_begin(struct hca_qp *qp);
bool wire_pace_end(struct hca *hca, struct hca_qp *qp, bool more);
/* wire_pace_must_wait(): whether the next packet must wait. wire_pace_charge(): charge the
 * packet that was made last. Called through wire_pace_holds() and wire_pace_spend(), and only
 * where pacing applies. */
bool wire_pace_must_wait(struct hca *hca, struct hca_qp *qp);
void wire_pace_charge(struct hca *hca, struct hca_qp *qp);

/* wire/rate.c */
/* Apply the rate increases that are due since the last call; returns their number. */
unsigned wire_congestion_advance(struct wire_congestion *congestion, uint64_t now_ns);
/* Cut the rate: a notification has arrived. */
void wire_congestion_cut(struct wire_congestion *congestion, uint64_t now_ns);
/* Return how long the queue pair's own rate makes it wait; 0: no time at all. */
uint64_t wire_congestion_wait_ns(struct wire_congestion *congestion, uint64_t now_ns);
void wire_congestion_spend(struct wire_congestion *congestion, uint64_t bytes);
/* wire/congestion.c */
/* Handle a packet that the network has marked: notify the sender, within the limit. */
void wire_congestion_marked(struct hca *hca, struct hca_qp *qp, uint8_t opcode);
/* Handle a packet that claims to be a congestion notification. */
void wire_congestion_take(struct hca *hca, struct hca_wire *wire, const struct wire_path *path,
                          const uint8_t *data, size_t bytes);

#endif
