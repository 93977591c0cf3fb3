/* Creates objects while one of the library's system calls fails. Each line on standard input is
 * "make KIND PLACE", which makes the PLACE-th call fail if there are that many, or "drop KIND
 * -1". Prints an errno value, whether a call has failed, the numbers of this process's
 * descriptors and mappings of hcad's memory, and whether earlier objects still work. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tessera_rdma_abi.h"
#include "verbs_api.h"

int ibv_dealloc_pd(struct ibv_pd *pd);
int ibv_close_device(struct ibv_context *context);
int ibv_fork_init(void);
int ibv_resize_cq(struct ibv_cq *cq, int entries);
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access);
int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length,
                 int access);
int ibv_dereg_mr(struct ibv_mr *mr);
struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr);
int ibv_destroy_srq(struct ibv_srq *srq);
struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr);
int ibv_destroy_ah(struct ibv_ah *ah);
struct rdma_event_channel *rdma_create_event_channel(void);
void rdma_destroy_event_channel(struct rdma_event_channel *channel);
int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
                   int space);
int rdma_destroy_id(struct rdma_cm_id *id);
int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *address);
int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
int rdma_create_qp_ex(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *attr);
void rdma_destroy_qp(struct rdma_cm_id *id);
void *__libc_calloc(size_t count, size_t bytes);

/* ---- Replacements for the library's system calls, which the loader finds first. */

static long calls_left = -1; /* -1: no call fails */
static int has_failed;

static int fails(void) {
  if (calls_left < 0 || calls_left-- != 0) return 0;
  has_failed = 1;
  errno = ENOMEM;
  return 1;
}

void *calloc(size_t count, size_t bytes) {
  return fails() ? NULL : __libc_calloc(count, bytes);
}

void *mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset) {
  if (fails()) return MAP_FAILED;
  return (void *)syscall(SYS_mmap, at, bytes, protection, flags, fd, offset);
}

int madvise(void *at, size_t bytes, int advice) {
  return fails() ? -1 : (int)syscall(SYS_madvise, at, bytes, advice);
}

int fcntl(int fd, int command, ...) {
  va_list rest;
  va_start(rest, command);
  const long argument = va_arg(rest, long);
  va_end(rest);
  if (command == F_DUPFD_CLOEXEC && fails()) return -1;
  return (int)syscall(SYS_fcntl, fd, command, argument);
}

FILE *fopen(const char *path, const char *mode) {
  if (fails()) return NULL;
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  return fd < 0 ? NULL : fdopen(fd, mode);
}

/* ---- Objects that exist beforehand. */

enum { PAGE = 4096, PAGES = 6, LOCAL_WRITE = 1, ON_DEMAND = 1 << 6, MOVES = 1, IPV6_ONLY = 2 };
enum { RC = TESSERA_VERBS_QP_TYPE_RC, UD = TESSERA_VERBS_QP_TYPE_UD };

static struct ibv_device **devices;
static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_comp_channel *channel;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static struct ibv_mr *moving, *all;
static struct rdma_event_channel *events;
static struct rdma_cm_id *bound;
static char *memory, *other, *aperture;
static void *made;

static struct verbs_context *verbs(void) {
  return (struct verbs_context *)((char *)context - offsetof(struct verbs_context, context));
}

static char *filled(void) {
  char *pages = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (int i = 0; i < PAGES; i++) memset(pages + i * PAGE, 'a' + i, PAGE);
  return pages;
}

static int keeps(const char *pages) {
  int same = 1;
  for (int i = 0; i < PAGES * PAGE; i++) same &= pages[i] == 'a' + i / PAGE;
  return same;
}

static void set(int state) {
  struct ibv_qp_attr attr = {.qp_state = state, .port_num = 1};
  const int rest = state == TESSERA_VERBS_STATE_INIT
                       ? TESSERA_VERBS_MASK_PKEY_INDEX | TESSERA_VERBS_MASK_PORT |
                             TESSERA_VERBS_MASK_ACCESS_FLAGS
                       : 0;
  if (ibv_modify_qp(qp, &attr, TESSERA_VERBS_MASK_STATE | rest) != 0) exit(2);
}

/* A receive without a message is flushed into the completion queue. */
static int completes(void) {
  struct ibv_recv_wr *bad, wr = {.wr_id = 7};
  struct ibv_wc done = {0};
  set(TESSERA_VERBS_STATE_INIT);
  if (context->ops.post_recv(qp, &wr, &bad) != 0) return 0;
  set(TESSERA_VERBS_STATE_ERR);
  int got = 0;
  for (int i = 0; i < 1000000 && got == 0; i++) got = context->ops.poll_cq(cq, 1, &done);
  set(TESSERA_VERBS_STATE_RESET);
  return got == 1 && done.wr_id == 7 && done.status == TESSERA_VERBS_STATUS_WR_FLUSH_ERR;
}

static void begin(void) {
  devices = ibv_get_device_list(NULL);
  context = ibv_open_device(devices[0]);
  pd = ibv_alloc_pd(context);
  channel = ibv_create_comp_channel(context);
  cq = ibv_create_cq(context, 64, NULL, NULL, 0);
  struct ibv_qp_init_attr wanted = {
      .send_cq = cq, .recv_cq = cq, .cap = {4, 4, 1, 1, 0}, .qp_type = RC};
  qp = ibv_create_qp(pd, &wanted);
  memory = filled();
  mprotect(memory + 2 * PAGE, PAGE, PROT_READ); /* three mappings */
  other = filled();
  aperture = mmap((void *)(uintptr_t)0x300000000000, PAGE, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); /* where libcuda would place devices */
  moving = ibv_reg_mr(pd, filled(), PAGE, LOCAL_WRITE);
  all = ibv_reg_mr(pd, NULL, SIZE_MAX, LOCAL_WRITE | ON_DEMAND);
  events = rdma_create_event_channel();
  struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  if (!qp || !moving || !all || !events ||
      rdma_create_id(events, &bound, NULL, TESSERA_CM_PORT_SPACE_TCP) != 0 ||
      rdma_bind_addr(bound, (struct sockaddr *)&own) != 0) {
    perror("resources");
    exit(1);
  }
}

/* ---- The kinds of objects. */

static int made_or_errno(void *object) {
  made = object;
  return object ? 0 : errno;
}

static int nothing(void) { return 0; }
static int make_device(void) { return made_or_errno(ibv_open_device(devices[0])); }
static int drop_device(void) { return ibv_close_device(made); }
static int make_pd(void) { return made_or_errno(ibv_alloc_pd(context)); }
static int drop_pd(void) { return ibv_dealloc_pd(made); }
static int make_channel(void) { return made_or_errno(ibv_create_comp_channel(context)); }
static int drop_channel(void) { return ibv_destroy_comp_channel(made); }
static int make_cq(void) { return made_or_errno(ibv_create_cq(context, 64, NULL, channel, 0)); }

static int make_cq_ex(void) {
  struct ibv_cq_init_attr_ex wide = {.cqe = 64};
  return made_or_errno(verbs()->create_cq_ex(context, &wide));
}

static int drop_cq(void) { return ibv_destroy_cq(made); }
static int grow(void) { return ibv_resize_cq(cq, 4096); }
static int shrink(void) { return ibv_resize_cq(cq, 64); }

static int make_qp(void) {
  struct ibv_qp_init_attr wanted = {
      .send_cq = cq, .recv_cq = cq, .cap = {4, 4, 1, 1, 0}, .qp_type = RC};
  return made_or_errno(ibv_create_qp(pd, &wanted));
}

static int drop_qp(void) { return ibv_destroy_qp(made); }

static int make_srq(void) {
  struct ibv_srq_init_attr wanted = {.attr = {.max_wr = 16, .max_sge = 1}};
  return made_or_errno(ibv_create_srq(pd, &wanted));
}

static int drop_srq(void) { return ibv_destroy_srq(made); }
static int make_mw(void) { return made_or_errno(context->ops.alloc_mw(pd, 1)); }
static int drop_mw(void) { return context->ops.dealloc_mw(made); }

static int make_ah(void) {
  struct ibv_ah_attr wanted = {.is_global = 1, .port_num = 1, .grh.sgid_index = 1};
  ibv_query_gid(context, 1, 1, &wanted.grh.dgid);
  return made_or_errno(ibv_create_ah(pd, &wanted));
}

static int drop_ah(void) { return ibv_destroy_ah(made); }
static int make_mr(void) { return made_or_errno(ibv_reg_mr(pd, memory, PAGE, LOCAL_WRITE)); }
static int make_pieces(void) { return made_or_errno(ibv_reg_mr(pd, memory, PAGES * PAGE, 0)); }
static int make_aperture(void) { return made_or_errno(ibv_reg_mr(pd, aperture, PAGE, 0)); }
static int make_all(void) { return made_or_errno(ibv_reg_mr(pd, NULL, SIZE_MAX, ON_DEMAND)); }
static int drop_mr(void) { return ibv_dereg_mr(made); }

static int move_mr(void) {
  return ibv_rereg_mr(moving, MOVES, NULL, other, PAGE, LOCAL_WRITE) == 0 ? 0 : errno;
}

static char *home;
static int move_home(void) {
  return ibv_rereg_mr(moving, MOVES, NULL, home, PAGE, LOCAL_WRITE) == 0 ? 0 : errno;
}

static int reach(void) {
  struct ibv_sge range = {(uintptr_t)other + PAGE, 16, all->lkey};
  return verbs()->advise_mr(pd, 0, 0, &range, 1);
}

static int forget(void) {
  int error = ibv_dereg_mr(all);
  all = ibv_reg_mr(pd, NULL, SIZE_MAX, LOCAL_WRITE | ON_DEMAND);
  return all ? error : errno;
}

static int make_connection(void) {
  struct ibv_qp_init_attr wanted = {.cap = {4, 4, 1, 1, 0}, .qp_type = RC};
  struct ibv_qp_attr first = {.qp_state = TESSERA_VERBS_STATE_INIT, .port_num = 1};
  const int mask = TESSERA_VERBS_MASK_STATE | TESSERA_VERBS_MASK_PKEY_INDEX |
                   TESSERA_VERBS_MASK_PORT | TESSERA_VERBS_MASK_ACCESS_FLAGS;
  return made_or_errno(tessera_create_qp(pd, &wanted, NULL, &first, mask));
}

static int drop_connection(void) {
  struct ibv_qp *own = made;
  return tessera_destroy_qp(own, own->recv_cq, own->send_cq);
}

static int make_events(void) { return made_or_errno(rdma_create_event_channel()); }

static int drop_events(void) {
  rdma_destroy_event_channel(made);
  return 0;
}

static int make_id(void) {
  struct rdma_cm_id *id;
  if (rdma_create_id(NULL, &id, NULL, TESSERA_CM_PORT_SPACE_TCP) != 0) return errno;
  made = id;
  return 0;
}

static int drop_id(void) { return rdma_destroy_id(made); }

static int make_cm_qp(void) {
  struct ibv_qp_init_attr wanted = {.cap = {4, 4, 1, 1, 0}, .qp_type = RC};
  return rdma_create_qp(bound, NULL, &wanted) == 0 ? 0 : errno;
}

/* A program may try again with the same structure. */
static int make_cm_qp_ex(void) {
  static struct ibv_qp_init_attr_ex wanted;
  if (!wanted.qp_type) wanted = (struct ibv_qp_init_attr_ex){
      .cap = {4, 4, 1, 1, 0}, .qp_type = RC, .comp_mask = IBV_QP_INIT_ATTR_CREATE_FLAGS};
  const int error = rdma_create_qp_ex(bound, &wanted) == 0 ? 0 : errno;
  if (error != 0 && (wanted.send_cq || wanted.recv_cq)) exit(3); /* of destroyed queues */
  if (error == 0) wanted.send_cq = wanted.recv_cq = NULL;
  return error;
}

static int drop_cm_qp(void) {
  rdma_destroy_qp(bound);
  return 0;
}

static const struct kind {
  const char *name;
  int (*make)(void), (*drop)(void);
} KINDS[] = {
    {"nothing", nothing, nothing},
    {"device", make_device, drop_device},
    {"domain", make_pd, drop_pd},
    {"channel", make_channel, drop_channel},
    {"completions", make_cq, drop_cq},
    {"extended_completions", make_cq_ex, drop_cq},
    {"more_completions", grow, shrink},
    {"pair", make_qp, drop_qp},
    {"shared_receives", make_srq, drop_srq},
    {"window", make_mw, drop_mw},
    {"address", make_ah, drop_ah},
    {"region", make_mr, drop_mr},
    {"pieces", make_pieces, drop_mr},
    {"aperture", make_aperture, drop_mr},
    {"all_memory", make_all, drop_mr},
    {"part_of_all", reach, forget},
    {"moved_region", move_mr, move_home},
    {"connection", make_connection, drop_connection},
    {"events", make_events, drop_events},
    {"id", make_id, drop_id},
    {"pair_of_id", make_cm_qp, drop_cm_qp},
    {"extended_pair_of_id", make_cm_qp_ex, drop_cm_qp},
};

/* ---- This process's resources. */

static int count_descriptors(void) {
  DIR *folder = opendir("/proc/self/fd");
  int count = 0;
  while (readdir(folder)) count++;
  closedir(folder);
  return count;
}

static int count_mappings(void) {
  FILE *maps = fopen("/proc/self/maps", "r");
  char line[512];
  int count = 0;
  while (fgets(line, sizeof line, maps)) count += strstr(line, "/memfd:tessera-hca") != NULL;
  fclose(maps);
  return count;
}

int main(int argc, char **argv) {
  (void)argv;
  if (argc > 1 && ibv_fork_init() != 0) return 1;
  begin();
  home = moving->addr;
  char what[8], name[32];
  long place;
  setvbuf(stdout, NULL, _IOLBF, 0);
  puts("ready");
  while (scanf("%7s %31s %ld", what, name, &place) == 3) {
    const struct kind *kind = KINDS;
    while (strcmp(kind->name, name) != 0)
      if (++kind == KINDS + sizeof KINDS / sizeof *KINDS) return 4;
    has_failed = 0;
    calls_left = place;
    const int error = strcmp(what, "make") == 0 ? kind->make() : kind->drop();
    calls_left = -1;
    const int works = completes() && keeps(memory) && keeps(other) && keeps(home);
    printf("%d %d %d %d %d\n", error, has_failed, count_descriptors(), count_mappings(), works);
  }
  return 0;
}
