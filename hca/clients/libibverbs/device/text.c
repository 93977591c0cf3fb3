/* Names of statuses and events, rates, and sysfs files. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "api.h"
#include "tessera_rdma_abi.h"

#define COUNT(table) (int)(sizeof(table) / sizeof *(table))

static const char *pick(const char *const *table, int count, int value, const char *otherwise) {
  return value >= 0 && value < count && table[value] ? table[value] : otherwise;
}

const char *tsr_ibv_wc_status_str(int status) {
  static const char *const TEXTS[] = {
      "success", "local length error", "local QP operation error",
      "local EE context operation error", "local protection error",
      "Work Request Flushed Error", "memory management operation error", "bad response error",
      "local access error", "remote invalid request error", "remote access error",
      "remote operation error", "transport retry counter exceeded", "RNR retry counter exceeded",
      "local RDD violation error", "remote invalid RD request", "aborted error",
      "invalid EE context number", "invalid EE context state", "fatal error",
      "response timeout error", "general error", "TM error", "TM software rendezvous"};
  return pick(TEXTS, COUNT(TEXTS), status, "unknown");
}

const char *tsr_ibv_node_type_str(int type) {
  static const char *const TEXTS[] = {NULL, "InfiniBand channel adapter", "InfiniBand switch",
                                      "InfiniBand router", "iWARP NIC"};
  return pick(TEXTS, COUNT(TEXTS), type, "unknown");
}

const char *tsr_ibv_port_state_str(int state) {
  static const char *const TEXTS[] = {"no state change (NOP)", "down", "init",
                                      "armed", "active", "active defer"};
  return pick(TEXTS, COUNT(TEXTS), state, "invalid state");
}

const char *tsr_ibv_event_type_str(int type) {
  static const char *const TEXTS[] = {
      "CQ error", "local work queue catastrophic error", "invalid request local work queue error",
      "local access violation work queue error", "communication established", "send queue drained",
      "path migrated", "path migration request error", "local catastrophic error", "port active",
      "port error", "LID change", "P_Key change", "SM change", "SRQ catastrophic error",
      "SRQ limit reached", "last WQE reached", "client reregistration", "GID table change",
      "WQ fatal"};
  return pick(TEXTS, COUNT(TEXTS), type, "unknown");
}

/* Verbs' rates: number, Mbit/s. Multiples refer to 2.5 Gbit/s. */
static const struct {
  int rate, mbps, multiple;
} RATES[] = {{2, 2500, 1},     {5, 5000, 2},     {3, 10000, 4},    {6, 20000, 8},
             {4, 30000, 12},   {7, 40000, 16},   {8, 60000, 24},   {9, 80000, 32},
             {10, 120000, 48}, {11, 14062, 6},   {12, 56250, 22},  {13, 112500, 45},
             {14, 168750, 67}, {15, 25781, 10},  {16, 103125, 41}, {17, 206250, 82},
             {18, 309375, 124}, {19, 28125, 11}, {20, 50000, 20},  {21, 400000, 160},
             {22, 600000, 240}, {23, 800000, 320}, {24, 1200000, 480}};

int tsr_ibv_rate_to_mult(int rate) {
  for (int i = 0; i < COUNT(RATES); i++)
    if (RATES[i].rate == rate) return RATES[i].multiple;
  return -1;
}

int tsr_mult_to_ibv_rate(int multiple) {
  for (int i = 0; i < COUNT(RATES); i++)
    if (RATES[i].multiple == multiple) return RATES[i].rate;
  return 0;
}

int tsr_ibv_rate_to_mbps(int rate) {
  for (int i = 0; i < COUNT(RATES); i++)
    if (RATES[i].rate == rate) return RATES[i].mbps;
  return -1;
}

int tsr_mbps_to_ibv_rate(int mbps) {
  for (int i = 0; i < COUNT(RATES); i++)
    if (RATES[i].mbps == mbps) return RATES[i].rate;
  return 0;
}

const char *tsr_ibv_wr_opcode_str(int opcode) {
#define NAME(name, text, ...) [TESSERA_VERBS_OPCODE_##name] = text,
  static const char *const NAMES[] = {TESSERA_OPERATIONS(NAME)};
#undef NAME
  return opcode >= 0 && opcode < COUNT(NAMES) && NAMES[opcode] ? NAMES[opcode] : "unknown";
}

const char *tsr_ibv_get_sysfs_path(void) { return "/sys"; }

int tsr_ibv_read_sysfs_file(const char *directory, const char *file, char *buffer, size_t size) {
  char path[512];
  if ((size_t)snprintf(path, sizeof path, "%s/%s", directory, file) >= sizeof path) return -1;
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  ssize_t got = read(fd, buffer, size);
  close(fd);
  if (got > 0 && buffer[got - 1] == '\n') got--;
  if (got < 0) return -1;
  if ((size_t)got < size)
    buffer[got] = 0;
  else if (size > 0)
    buffer[size - 1] = 0;
  return (int)got;
}
