/* Handover of connections over a wire to this engine's successor. The sockets are handed over,
 * too.
 *
 * The requester's state is two PSNs: unanswered packets are sent again, which the peer expects
 * (go-back-N). Requests are read from the ring and checked again. The responder's state consists
 * of what the peer relies on: the next expected PSN, and how much of the current message has
 * arrived. */
#include "wire/wire.h"

static void save_requester(const struct hca_qp *qp, tessera_hca_saved_wired *saved) {
  struct wire_requester *requester = &qp->wired->requester;
  const bool busy = requester->tail != requester->head;
  saved->oldest_psn = requester->oldest_psn;
  saved->room = requester->room;
  saved->first_psn =
      busy ? wire_request_at(requester, requester->tail)->first_psn : requester->free_psn;
}

static void save_responder(const struct hca_qp *qp, tessera_hca_saved_wired *saved) {
  const struct wire_responder *responder = &qp->wired->responder;
  saved->psn = responder->psn;
  saved->msn = responder->msn;
  saved->last_psn = responder->last_psn;
  saved->refused = responder->refused;
  saved->answers = responder->answers;
  saved->message = responder->message;
  saved->key = responder->key;
  saved->bytes = responder->bytes;
  saved->done = responder->done;
  saved->address = responder->address;
  saved->reading_count = responder->reading_count;
  for (unsigned i = 0; i < responder->reading_count; i++) {
    const struct wire_reading *reading =
        &responder->reading[(responder->reading_first + i) % WIRE_READS];
    saved->reading[i] = (tessera_hca_saved_reading){.psn = reading->psn,
                                                    .key = reading->key,
                                                    .bytes = reading->bytes,
                                                    .done = reading->done,
                                                    .address = reading->address,
                                                    .atomic = reading->atomic};
  }
  const struct wire_results *results = &responder->results;
  saved->result_count = results->count;
  for (unsigned i = 0; i < results->count; i++) { /* oldest first */
    const unsigned at = (results->next + WIRE_READS - results->count + i) % WIRE_READS;
    saved->results[i] = (tessera_hca_saved_result){.psn = results->of[at].psn,
                                                   .before = results->of[at].before};
  }
}

void hca_wire_save(const struct hca_qp *qp, tessera_hca_saved_wired *saved) {
  *saved = (tessera_hca_saved_wired){.wired = qp->wired != NULL};
  if (!qp->wired) return;
  save_requester(qp, saved);
  save_responder(qp, saved);
}

static void load_responder(struct hca *hca, struct hca_qp *qp,
                           const tessera_hca_saved_wired *saved) {
  struct wire_responder *responder = &qp->wired->responder;
  responder->psn = saved->psn;
  responder->msn = saved->msn;
  responder->last_psn = saved->last_psn;
  responder->refused = saved->refused != 0;
  responder->answers = saved->answers != 0;
  responder->message = (enum wire_kind)saved->message;
  responder->key = saved->key;
  responder->bytes = saved->bytes;
  responder->done = saved->done;
  responder->address = saved->address;
  responder->reading_count = saved->reading_count < WIRE_READS ? saved->reading_count : WIRE_READS;
  for (unsigned i = 0; i < responder->reading_count; i++) {
    const tessera_hca_saved_reading *reading = &saved->reading[i];
    responder->reading[i] = (struct wire_reading){.psn = reading->psn,
                                                  .key = reading->key,
                                                  .bytes = reading->bytes,
                                                  .done = reading->done,
                                                  .address = reading->address,
                                                  .atomic = reading->atomic != 0};
  }
  for (unsigned i = 0; i < saved->result_count && i < WIRE_READS; i++)
    wire_keep_result(qp, saved->results[i].psn, saved->results[i].before);
  if (responder->answers) wire_note(hca, qp->wired);
}

bool hca_wire_load(struct hca *hca, struct hca_qp *qp, const tessera_hca_saved_wired *saved) {
  hca_wire_leave(hca, qp); /* drop any earlier connection */
  if (!saved->wired) return true;
  struct hca_wire *wire = wire_of(hca, qp->client, qp->attributes.sgid_index);
  if (!wire || !wire_join(wire, qp)) return false;
  wire_requester_resume(qp, saved);
  load_responder(hca, qp, saved);
  return true;
}
