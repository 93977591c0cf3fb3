/* What the files that carry requests out share: outcome.c, elements.c, requester.c,
 * responder.c, datagram.c, datagram_send.c and turn.c. */
#ifndef HCA_WORK_H
#define HCA_WORK_H

#include "base/internal.h"

enum hca_step { HCA_STEP_DONE, HCA_STEP_AGAIN, HCA_STEP_WAIT, HCA_STEP_FAILED };

static inline bool hca_is_send(uint32_t opcode) {
  return tessera_is_one_of(TESSERA_OPERATIONS_SEND, opcode);
}

static inline bool hca_is_write(uint32_t opcode) {
  return tessera_is_one_of(TESSERA_OPERATIONS_WRITE, opcode);
}

static inline bool hca_has_immediate(uint32_t opcode) {
  return tessera_is_one_of(TESSERA_OPERATIONS_WITH_IMMEDIATE, opcode);
}

/* A key of the receiver's, which the operation takes from it when it has ended. */
static inline bool hca_invalidates(uint32_t opcode) {
  return tessera_is_one_of(TESSERA_OPERATIONS_WITH_INVALIDATE, opcode);
}

static inline bool hca_is_read(uint32_t opcode) {
  return tessera_is_one_of(TESSERA_OPERATIONS_READ, opcode);
}

static inline bool hca_is_atomic(uint32_t opcode) {
  return tessera_is_one_of(TESSERA_OPERATIONS_ATOMIC, opcode);
}

/* What the responder answers with data. */
static inline bool hca_is_answered(uint32_t opcode) {
  return tessera_is_one_of(TESSERA_OPERATIONS_READ | TESSERA_OPERATIONS_ATOMIC, opcode);
}

/* Eight bytes, which lie in the request. */
static inline bool hca_is_atomic_write(uint32_t opcode) {
  return tessera_is_one_of(TESSERA_OPERATIONS_ATOMIC_WRITE, opcode);
}

/* What concerns nobody else. */
static inline bool hca_is_own(uint32_t opcode) {
  return tessera_is_one_of(TESSERA_OPERATIONS_OWN, opcode);
}

static inline bool hca_takes_receive(uint32_t opcode) {
  return hca_is_send(opcode) || hca_has_immediate(opcode);
}

/* What a request needs of the requester's own memory. */
static inline uint32_t hca_local_access(uint32_t opcode) {
  return hca_is_answered(opcode) ? TESSERA_VERBS_ACCESS_LOCAL_WRITE : 0;
}

/* outcome.c */
/* Puts a completion into a queue of `qp`; where there is no room the queue pair fails. */
void hca_finish(struct hca *hca, struct hca_qp *qp, struct hca_cq *cq, tessera_hca_cqe entry,
                bool solicited);
void hca_end_send(struct hca *hca, struct hca_qp *qp, uint32_t status);
enum hca_step hca_fail_send(struct hca *hca, struct hca_qp *qp, uint32_t status);
/* Ends the peer's receive request that `qp` is at. */
void hca_end_receive(struct hca *hca, struct hca_qp *peer, const struct hca_qp *qp,
                     uint32_t status);
/* What the responder refuses ends both ends: there as an event or a receive, here as a status. */
enum hca_step hca_refuse(struct hca *hca, struct hca_qp *qp, struct hca_qp *peer, uint32_t event,
                         uint32_t status);
enum hca_step hca_refuse_receive(struct hca *hca, struct hca_qp *qp, struct hca_qp *peer,
                                 uint32_t there, uint32_t here);
enum hca_step hca_wait_for_peer(struct hca *hca, struct hca_qp *qp);
enum hca_step hca_wait_for_receive(struct hca *hca, struct hca_qp *qp, struct hca_qp *peer);
/* How many requests lie in a ring; a head that makes no sense ends the queue pair. */
uint32_t hca_pending(struct hca *hca, struct hca_qp *qp, const uint32_t *head, uint32_t tail,
                     uint32_t room);

/* What a code of the RNR NAK timer field means. */
uint64_t hca_pause_ns(unsigned code);

/* elements.c */
uint64_t hca_sum(const tessera_hca_sge *sges, unsigned count);
bool hca_all_valid(struct hca *hca, const struct hca_qp *qp, const tessera_hca_sge *sges,
                   unsigned count, uint32_t access);
/* The memory under a cursor; NULL where a region went away. Empty elements are passed over. */
uint8_t *hca_under(struct hca *hca, const struct hca_qp *qp, struct hca_cursor *cursor,
                   uint32_t access, uint64_t *bytes);

/* requester.c */
/* Checks what the requester alone is to blame for: a status of verbs. */
uint32_t hca_check_local(struct hca *hca, struct hca_qp *qp);
uint8_t *hca_local_memory(struct hca *hca, struct hca_qp *qp, uint64_t *bytes);
/* Binds or invalidates a memory window: a status of verbs. */
uint32_t hca_carry_out_own(struct hca *hca, struct hca_qp *qp);

/* admit.c: HCA_STEP_AGAIN where policy lets the request pass, or go on. */
enum hca_step hca_admit(struct hca *hca, struct hca_qp *qp, const struct hca_qp *peer);
/* A part of a request was carried out; with `done` all of it. */
void hca_account(struct hca_qp *qp, uint32_t bytes, bool done);
/* The same of a datagram, counted when it may go; HCA_STEP_FAILED: it went nowhere. */
enum hca_step hca_admit_datagram(struct hca *hca, struct hca_qp *qp, const struct hca_ah *ah);

/* responder.c */
/* HCA_STEP_AGAIN where the peer permits the request. */
enum hca_step hca_check_remote(struct hca *hca, struct hca_qp *qp, struct hca_qp *peer);
/* Once: HCA_STEP_DONE, or how it was refused. */
enum hca_step hca_carry_out_atomic(struct hca *hca, struct hca_qp *qp, struct hca_qp *peer);
/* Takes a copy of the peer's next receive request, and checks it. */
enum hca_step hca_take_receive(struct hca *hca, struct hca_qp *qp, struct hca_qp *peer);
uint8_t *hca_remote_memory(struct hca *hca, struct hca_qp *peer, struct hca_work *work,
                           uint64_t *bytes);
/* The responder's memory went away under a request that had been accepted. */
enum hca_step hca_lose_remote(struct hca *hca, struct hca_qp *qp, struct hca_qp *peer);

/* datagram.c */
/* What a datagram says of itself beside its data, which lies in the engine's buffer. */
struct hca_datagram {
  uint32_t bytes, qkey, immediate, source_qpn;
  uint8_t service_level;
  bool has_immediate, solicited;
};
/* The 40 bytes before a datagram: the IP header as RoCE version 2 has it, in the last 20 for IPv4.
 * Lengths count what a packet adds: UDP, BTH, DETH, ICRC. */
void hca_write_grh(uint8_t *header, const uint8_t *source, const tessera_hca_ah_create *path,
                   uint32_t bytes);
/* Gives a datagram to a queue pair that it may have; what it cannot take is dropped. */
void hca_deliver_datagram(struct hca *hca, struct hca_qp *peer,
                          const struct hca_datagram *datagram);
/* What one more receiver of a datagram or a frame takes of a turn, besides its bytes. */
enum { HCA_RECEIVER_COST = 512 };
/* groups.c */
bool hca_is_group(const uint8_t *gid);
/* The member of a group after `last`; NULL: the first, or that there is none any more. */
const struct hca_member *hca_next_member(struct hca *hca, const uint8_t *gid,
                                         const struct hca_member *last);
/* Whether policy lets a member have what `sender`, of this engine, sends to its group. */
bool hca_hears(struct hca *hca, const struct hca_member *member, const struct hca_qp *sender);
/* wire/datagram.c: sends the datagram that `qp` is at, whose data lies in the engine's buffer.
 * HCA_STEP_AGAIN: it was sent, and has not ended. */
enum hca_step hca_wire_send_datagram(struct hca *hca, struct hca_qp *qp, struct hca_wire *wire,
                                     const tessera_hca_ah_create *path,
                                     const struct hca_datagram *datagram);
/* Puts what lies in the engine's buffer into the receive request that `peer` holds; false where its
 * memory went away. */
bool hca_scatter_datagram(struct hca *hca, struct hca_qp *peer, const uint8_t *from,
                          uint32_t bytes);
/* datagram_send.c */
/* Copies the request's data into the engine's own buffer, after the place of a header. */
bool hca_gather_datagram(struct hca *hca, struct hca_qp *qp);
/* What is given to many is charged for each of them. */
enum hca_step hca_carry_out_datagram(struct hca *hca, struct hca_qp *qp);

/* frame.c: reads the headers of an Ethernet frame. False where it must not move: it is RoCE's, or
 * that cannot be told. */
bool hca_read_frame(const uint8_t *frame, uint32_t bytes, tessera_hca_frame_fields *fields);
/* steer.c */
bool hca_steers(const struct hca_steer *steer, const tessera_hca_frame_fields *fields);
struct hca_qp *hca_steer_target(const struct hca_steer *steer,
                                const tessera_hca_frame_fields *fields);
/* raw.c */
enum hca_step hca_carry_out_frame(struct hca *hca, struct hca_qp *qp);

#endif
