#define _GNU_SOURCE
#include "connections/addresses.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BACKLOG = 1024 };

static socklen_t to_system(const struct tsr_address *address, struct sockaddr_storage *system) {
  memset(system, 0, sizeof *system);
  if (address->family == AF_INET6) {
    struct sockaddr_in6 *const six = (struct sockaddr_in6 *)system;
    six->sin6_family = AF_INET6;
    six->sin6_port = address->port;
    six->sin6_scope_id = address->scope;
    memcpy(&six->sin6_addr, address->bytes, sizeof six->sin6_addr);
    return sizeof *six;
  }
  struct sockaddr_in *const four = (struct sockaddr_in *)system;
  four->sin_family = AF_INET;
  four->sin_port = address->port;
  memcpy(&four->sin_addr, address->bytes, sizeof four->sin_addr);
  return sizeof *four;
}

static void from_system(const struct sockaddr *system, struct tsr_address *address) {
  memset(address, 0, sizeof *address);
  address->family = system->sa_family;
  if (system->sa_family == AF_INET6) {
    const struct sockaddr_in6 *const six = (const struct sockaddr_in6 *)system;
    address->port = six->sin6_port;
    address->scope = six->sin6_scope_id;
    memcpy(address->bytes, &six->sin6_addr, sizeof six->sin6_addr);
  } else {
    const struct sockaddr_in *const four = (const struct sockaddr_in *)system;
    address->port = four->sin_port;
    memcpy(address->bytes, &four->sin_addr, sizeof four->sin_addr);
  }
}

/* Whether a comma-separated list has the name, or, unless it is exact, a prefix of the name. */
static bool is_listed(const char *list, const char *name, bool exact) {
  while (*list) {
    const size_t length = strcspn(list, ",");
    const bool fits = exact ? strlen(name) == length : strlen(name) >= length;
    if (length && fits && memcmp(list, name, length) == 0) return true;
    list += length + (list[length] == ',');
  }
  return false;
}

/* NCCL_SOCKET_IFNAME: prefixes; after "=" whole names; after "^" those that are not permitted. */
static bool is_permitted(const char *name) {
  const char *list = getenv("NCCL_SOCKET_IFNAME");
  if (!list || !*list) return true;
  const bool excluded = *list == '^';
  list += excluded;
  const bool exact = *list == '=';
  list += exact;
  return is_listed(list, name, exact) != excluded;
}

/* Return how well an interface's address suits; 0: not at all. */
static int suitability(const struct ifaddrs *one) {
  if (!one->ifa_addr || !(one->ifa_flags & IFF_UP) || !is_permitted(one->ifa_name)) return 0;
  const int family = one->ifa_addr->sa_family;
  const char *wanted = getenv("NCCL_SOCKET_FAMILY");
  if (family != AF_INET && family != AF_INET6) return 0;
  if (wanted && strcmp(wanted, family == AF_INET ? "AF_INET" : "AF_INET6") != 0) return 0;
  if (one->ifa_flags & IFF_LOOPBACK) return family == AF_INET ? 2 : 1;
  const bool local = family == AF_INET6 &&
                     IN6_IS_ADDR_LINKLOCAL(&((const struct sockaddr_in6 *)one->ifa_addr)->sin6_addr);
  const bool bridge = strncmp(one->ifa_name, "docker", 6) == 0 || strncmp(one->ifa_name, "br-", 3) == 0;
  if (local) return 3;
  return (family == AF_INET ? 5 : 4) + (bridge ? 0 : 2);
}

static bool choose(struct tsr_address *address) {
  struct ifaddrs *all = NULL;
  if (getifaddrs(&all) != 0) return false;
  int best = 0;
  for (const struct ifaddrs *one = all; one; one = one->ifa_next) {
    const int found = suitability(one);
    if (found <= best) continue;
    best = found;
    from_system(one->ifa_addr, address);
  }
  freeifaddrs(all);
  address->port = 0;
  return best > 0;
}

int tsr_listen(struct tsr_address *address) {
  struct sockaddr_storage system;
  if (!choose(address)) return -1;
  socklen_t bytes = to_system(address, &system);
  const int fd = socket(address->family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  if (bind(fd, (struct sockaddr *)&system, bytes) == 0 && listen(fd, BACKLOG) == 0 &&
      getsockname(fd, (struct sockaddr *)&system, &bytes) == 0) {
    from_system((struct sockaddr *)&system, address);
    return fd;
  }
  close(fd);
  return -1;
}

int tsr_connect(const struct tsr_address *address) {
  struct sockaddr_storage system;
  const socklen_t bytes = to_system(address, &system);
  const int fd = socket(address->family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  const int one = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  if (connect(fd, (struct sockaddr *)&system, bytes) == 0) return fd;
  close(fd);
  return -1;
}
