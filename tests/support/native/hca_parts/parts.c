/* Parts of the HCA's engine without its threads and sockets: the test sets the time, and
 * packets go to a kernel whose answers the test sets. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "wire/wire.h"
#include "packets/crc.h"
#include "packets/names.h"

static uint64_t clock_ns;

int parts_clock_gettime(clockid_t id, struct timespec *now) {
  (void)id;
  *now = (struct timespec){(time_t)(clock_ns / 1000000000u), (long)(clock_ns % 1000000000u)};
  return 0;
}

void parts_set_clock(uint64_t ns) { clock_ns = ns; }

size_t parts_congestion_bytes(void) { return sizeof(struct wire_congestion); }

/* One engine: two addresses, one of each family, and four queue pairs of each. */
enum { WIRES = 2, QPS = 4, MAX_CALLS = 64, MAX_MESSAGES = 512 };

static struct hca engine = {.lock = PTHREAD_MUTEX_INITIALIZER};
static struct wire_batch batch;
static struct hca_wire wires[WIRES];
static struct hca_wired wireds[WIRES][QPS];
static struct hca_qp qps[WIRES][QPS];
static uint64_t waited_ns;
static unsigned waits, answer_count, answers_taken, call_count, message_count;
static int answers[MAX_CALLS];
static struct parts_call {
  int fd, count, answer;
} calls[MAX_CALLS];
static struct parts_message {
  int call, first, bytes, segment, tos, level, port, scope, name_bytes;
} messages[MAX_MESSAGES];

void hca_wait_until(struct hca *hca, struct hca_qp *qp, enum hca_wait why, uint64_t wake_ns) {
  (void)hca;
  qp->waiting = why;
  qp->wake_ns = waited_ns = wake_ns;
  waits++;
}

static uint8_t *gid_of(uint8_t *gid, unsigned wire, uint8_t last) {
  static const uint8_t FIRST[WIRES][12] = {{[10] = 0xFF, [11] = 0xFF}, {0xFE, 0x80}};
  memset(gid, 0, 16);
  memcpy(gid, FIRST[wire], sizeof FIRST[wire]);
  gid[12] = 127;
  gid[15] = last;
  return gid;
}

void parts_begin(bool segments) {
  free(engine.pacing);
  memset(wires, 0, sizeof wires);
  memset(wireds, 0, sizeof wireds);
  memset(qps, 0, sizeof qps);
  hca_crc_choose();
  engine.pacing = NULL;
  engine.pacing_number = 0;
  engine.wires = &wires[0];
  engine.wire_batch = &batch;
  batch.count = batch.used = 0;
  waits = answer_count = answers_taken = call_count = message_count = 0;
  waited_ns = 0;
  for (unsigned i = 0; i < WIRES; i++) {
    struct hca_wire *wire = &wires[i];
    wire->next = i + 1 < WIRES ? wire + 1 : NULL;
    gid_of(wire->gid, i, 1);
    wire->scope = 7;
    wire->lanes = 2;
    wire->segments = segments;
    for (unsigned lane = 0; lane < wire->lanes; lane++) wire->fds[lane] = (int)(10 * i + lane);
    for (unsigned j = 0; j < QPS; j++) {
      qps[i][j].wired = &wireds[i][j];
      wireds[i][j].wire = wire;
      wireds[i][j].qp = &qps[i][j];
      wireds[i][j].lane = j % wire->lanes;
      gid_of(wireds[i][j].path.source, i, 1);
      gid_of(wireds[i][j].path.destination, i, (uint8_t)(2 + j));
    }
  }
}

struct hca *parts_engine(void) { return &engine; }
struct hca_qp *parts_qp(unsigned wire, unsigned qp) { return &qps[wire][qp]; }
struct hca_wire *parts_wire(unsigned wire) { return &wires[wire]; }
void parts_lanes(unsigned wire, unsigned lanes) { wires[wire].lanes = lanes; }
void parts_class(unsigned wire, unsigned qp, unsigned number) {
  qps[wire][qp].policy.qos_class = number;
}
void parts_traffic_class(unsigned wire, unsigned qp, uint8_t value) {
  qps[wire][qp].attributes.traffic_class = value;
}
void parts_port(unsigned wire, uint64_t per_second) {
  wires[wire].port = hca_bucket_of(per_second);
}
void parts_waiting(unsigned wire, unsigned qp, unsigned why, uint64_t wake_ns) {
  qps[wire][qp].waiting = (enum hca_wait)why;
  qps[wire][qp].wake_ns = wake_ns;
}
struct wire_congestion *parts_congestion(unsigned wire, unsigned qp) {
  return &wireds[wire][qp].congestion;
}
uint64_t parts_wake_ns(unsigned wire, unsigned qp) { return wireds[wire][qp].pace.wake_ns; }
uint64_t parts_waited_ns(void) { return waited_ns; }
unsigned parts_waits(void) { return waits; }
unsigned parts_ready(void) { return engine.pacing->ready; }
unsigned parts_ready_of(unsigned number) { return engine.pacing->classes[number].ready; }

/* Charges a queue pair for a sent packet of `bytes`. */
void parts_spend(unsigned wire, unsigned qp, uint32_t bytes) {
  batch.out[0] = (struct wire_out){.wired = &wireds[wire][qp], .bytes = bytes};
  batch.count = 1;
  wire_pace_spend(&engine, &qps[wire][qp]);
  batch.count = 0;
}

void parts_put(unsigned wire, unsigned qp, uint32_t bytes, uint8_t opcode, uint8_t tos) {
  struct wire_out *out = &batch.out[batch.count];
  *out = (struct wire_out){&wireds[wire][qp], batch.used, bytes, opcode, tos};
  memset(batch.data + batch.used, (int)++batch.count, bytes);
  batch.used += bytes;
}

/* Makes a packet as a queue pair does; returns its cost. */
uint64_t parts_make(unsigned wire, unsigned qp, uint8_t opcode, uint32_t payload_bytes) {
  struct hca_function payer = {.credit = 0};
  const struct wire_packet packet = {.opcode = opcode, .payload_bytes = payload_bytes};
  engine.charged = &payer;
  uint8_t *payload = wire_begin(&engine, &wireds[wire][qp], &packet);
  memset(payload, 0xEE, payload_bytes);
  wire_end(&engine, &wireds[wire][qp], &packet);
  engine.charged = NULL;
  return payer.counts.cost;
}
void parts_datagrams(unsigned wire, unsigned qp, uint8_t tos) {
  wireds[wire][qp].qp = NULL;
  wireds[wire][qp].tos = tos;
}

/* Returns the wire that leads from an address of a client to another, or -1. Both addresses are
 * given by their last byte and the family of a wire. A function of this engine has the addresses
 * that end in 9. */
int parts_towards(unsigned own_wire, uint8_t own, unsigned index, unsigned wire, uint8_t to,
                  bool wires_there) {
  static struct hca_function here;
  static struct hca_client client;
  uint8_t gid[16];
  for (unsigned i = 0; i < TESSERA_HCA_GIDS; i++) gid_of(here.gids[i], i % WIRES, 9);
  gid_of(client.gids[1], own_wire, own);
  engine.functions = &here;
  engine.wires = wires_there ? &wires[0] : NULL;
  const struct hca_wire *found = hca_wire_towards(&engine, &client, index, gid_of(gid, wire, to));
  engine.wires = &wires[0];
  return found ? (int)(found - wires) : -1;
}

/* Sets the kernel's answer to the next call: a number of messages, or a negative error. */
void parts_answer(int answer) { answers[answer_count++] = answer; }

static int value_of(struct msghdr *header, int level, int type) {
  for (struct cmsghdr *at = CMSG_FIRSTHDR(header); at; at = CMSG_NXTHDR(header, at)) {
    if (at->cmsg_level != level || at->cmsg_type != type) continue;
    int value = 0;
    memcpy(&value, CMSG_DATA(at), at->cmsg_len - CMSG_LEN(0));
    return value;
  }
  return -1;
}

int parts_sendmmsg(int fd, struct mmsghdr *given, unsigned count, int flags) {
  (void)flags;
  const int answer = answers_taken < answer_count ? answers[answers_taken++] : (int)count;
  for (unsigned i = 0; i < count && message_count < MAX_MESSAGES; i++) {
    struct msghdr *header = &given[i].msg_hdr;
    const struct sockaddr_in6 *name = header->msg_name;
    const int level = name->sin6_family == AF_INET ? IPPROTO_IP : IPPROTO_IPV6;
    messages[message_count++] = (struct parts_message){
        .call = (int)call_count,
        .first = *(const uint8_t *)header->msg_iov->iov_base,
        .bytes = (int)header->msg_iov->iov_len,
        .segment = value_of(header, SOL_UDP, UDP_SEGMENT),
        .tos = value_of(header, level, level == IPPROTO_IP ? IP_TOS : IPV6_TCLASS),
        .level = level,
        .port = ntohs(name->sin6_port),
        .scope = level == IPPROTO_IPV6 ? (int)name->sin6_scope_id : -1,
        .name_bytes = (int)header->msg_namelen,
    };
  }
  calls[call_count++] = (struct parts_call){fd, (int)count, answer};
  if (answer >= 0) return answer < (int)count ? answer : (int)count;
  errno = -answer;
  return -1;
}

unsigned parts_calls(const struct parts_call **found) {
  *found = calls;
  return call_count;
}
unsigned parts_messages(const struct parts_message **found) {
  *found = messages;
  return message_count;
}
const tessera_hca_wire_counts *parts_counts(unsigned wire) { return &wires[wire].counts; }
bool parts_segments(unsigned wire) { return wires[wire].segments; }
uint32_t parts_icrc(unsigned wire, unsigned qp, uint16_t identification, uint8_t filled,
                    uint32_t bytes) {
  uint8_t data[WIRE_MAX_PACKET];
  memset(data, filled, bytes);
  return wire_icrc(&wireds[wire][qp].path, identification, data, bytes - WIRE_ICRC_BYTES);
}
uint32_t parts_sealed(unsigned packet) {
  const struct wire_out *out = &batch.out[packet];
  uint32_t icrc;
  memcpy(&icrc, batch.data + out->offset + out->bytes - WIRE_ICRC_BYTES, sizeof icrc);
  return icrc;
}
