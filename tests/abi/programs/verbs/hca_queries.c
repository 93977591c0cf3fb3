/* Results of the functions that read a device's tables: at both ends and beyond. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "api.h"
#include "tessera_rdma_abi.h"

struct ibv_device **ibv_get_device_list(int *count);
struct ibv_context *ibv_open_device(struct ibv_device *device);
int ibv_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid);
int ibv_query_gid_type(struct ibv_context *context, uint8_t port, unsigned index, unsigned *type);
int ibv_query_pkey(struct ibv_context *context, uint8_t port, int index, uint16_t *pkey);
int ibv_get_pkey_index(struct ibv_context *context, uint8_t port, uint16_t pkey);
int ibv_query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr);
int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index,
                      struct ibv_gid_entry *entry, uint32_t flags, size_t size);
ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
                             size_t count, uint32_t flags, size_t size);

enum { ENTRIES = 8, MORE = 16 };

static struct ibv_context *context;

/* The next failing call must set errno itself. */
static int status(int returned) {
  const int found = returned < 0 ? -errno : returned;
  errno = 0;
  return found;
}

static bool is_empty(const union ibv_gid *gid) {
  static const union ibv_gid none;
  return memcmp(gid, &none, sizeof none) == 0;
}

/* Return the status, and whether the entry equals that of ibv_query_gid() and is followed by
 * zeros. */
static void entry(unsigned port, unsigned index, unsigned flags, size_t size) {
  struct {
    struct ibv_gid_entry its;
    uint8_t more[MORE];
  } found;
  memset(&found, 0x5A, sizeof found);
  const int result = _ibv_query_gid_ex(context, port, index, &found.its, flags, size);
  printf("entry %u %u %u %+d: %d", port, index, flags, (int)(size - sizeof found.its), result);
  if (result == 0) {
    union ibv_gid gid;
    ibv_query_gid(context, (uint8_t)port, (int)index, &gid);
    const size_t behind = size - sizeof found.its;
    unsigned zeros = 0;
    for (size_t i = 0; i < MORE; i++) zeros += found.more[i] == (i < behind ? 0 : 0x5A);
    printf(" same %d index %u port %u type %u device %u behind %d",
           memcmp(&gid, &found.its.gid, sizeof gid) == 0, found.its.gid_index, found.its.port_num,
           found.its.gid_type, found.its.ndev_ifindex, zeros == MORE);
  }
  printf("\n");
}

static void table(size_t count, unsigned flags, size_t more) {
  struct {
    struct ibv_gid_entry its;
    uint8_t more[MORE];
  } found[ENTRIES];
  uint8_t room[sizeof found];
  memset(room, 0x5A, sizeof room);
  const size_t size = sizeof(struct ibv_gid_entry) + more;
  const ssize_t got = _ibv_query_gid_table(context, (void *)room, count, flags, size);
  printf("table %zu %u %+zd: %zd", count, flags, (ssize_t)more, got);
  for (ssize_t i = 0; i < got; i++) {
    struct ibv_gid_entry one;
    memcpy(&one, room + (size_t)i * size, sizeof one);
    printf(" %u", one.gid_index);
  }
  printf(" rest %d\n", got < 0 || room[(size_t)got * size] == 0x5A);
}

int main(void) {
  int count;
  context = ibv_open_device(ibv_get_device_list(&count)[0]);
  errno = 0;
  union ibv_gid gid;
  unsigned type;
  uint16_t pkey;
  for (int index = -1; index <= ENTRIES; index++) {
    printf("gid %d: %d", index, status(ibv_query_gid(context, 1, index, &gid)));
    if (index >= 0 && index < ENTRIES) printf(" empty %d", is_empty(&gid));
    printf(" type %d", status(ibv_query_gid_type(context, 1, (unsigned)index, &type)));
    printf(" %u\n", index >= 0 && index < ENTRIES ? type : 0);
  }
  for (unsigned port = 0; port <= 2; port += 2)
    printf("port %u: %d %d %d\n", port, status(ibv_query_gid(context, (uint8_t)port, 0, &gid)),
           status(ibv_query_pkey(context, (uint8_t)port, 0, &pkey)),
           ibv_get_pkey_index(context, (uint8_t)port, htons(0xFFFF)));
  const int pkeys = (int)TESSERA_HCA_PKEYS;
  for (int index = -1; index <= pkeys; index += index == 0 ? pkeys - 1 : 1)
    printf("pkey %d: %d\n", index, status(ibv_query_pkey(context, 1, index, &pkey)));
  ibv_query_pkey(context, 1, 0, &pkey);
  printf("pkey %#x at %d, none at %d\n", ntohs(pkey), ibv_get_pkey_index(context, 1, pkey),
         ibv_get_pkey_index(context, 1, htons(0x1234)));
  const size_t size = sizeof(struct ibv_gid_entry);
  for (unsigned index = 0; index <= ENTRIES; index++) entry(1, index, 0, size);
  entry(1, 0, 0, size + 8);
  entry(1, 0, 0, size - 1);
  entry(1, 0, 1, size);
  entry(1, 0, 1, size - 1);
  entry(0, 0, 0, size);
  entry(2, 0, 0, size);
  table(TESSERA_HCA_GIDS, 0, 0);
  table(TESSERA_HCA_GIDS + 1, 0, 8);
  table(TESSERA_HCA_GIDS - 1, 0, 0);
  table(TESSERA_HCA_GIDS, 1, 0);
  table(TESSERA_HCA_GIDS, 0, (size_t)-1);
  return 0;
}
