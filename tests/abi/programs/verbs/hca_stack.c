/* Registers variables of running functions; prints one line per thread. Argument: `shallow` or
 * `deep`. */
#define _GNU_SOURCE
#include <alloca.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#include "api.h"

struct ibv_device **ibv_get_device_list(int *count);
struct ibv_context *ibv_open_device(struct ibv_device *device);
int ibv_close_device(struct ibv_context *context);
struct ibv_pd *ibv_alloc_pd(struct ibv_context *context);
int ibv_dealloc_pd(struct ibv_pd *pd);
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access);
int ibv_dereg_mr(struct ibv_mr *mr);

enum { LOCAL_WRITE = 1, PAGE = 4096, STEP = 336, STEPS = 26, ROOM = 200 << 10 };

static struct ibv_pd *pd;
static int failed, registered, wrong;

/* Counters of a signal handler: one in a stack variable, one elsewhere. */
static volatile int *counted_here;
static volatile int counted;

static void tick(int number) {
  (void)number;
  counted++;
  if (counted_here) (*counted_here)++;
}

/* Use more of the stack than any call before. */
__attribute__((noinline)) static int go_down(int pages) {
  volatile char page[PAGE];
  memset((char *)page, pages, sizeof page);
  return pages == 0 ? 0 : go_down(pages - 1) + page[7] - pages % 128;
}

/* The variables have another offset in a page in each call. They are registered in one
 * function's frame and deregistered in another's. */
__attribute__((noinline)) static void descend(int step, int room, struct ibv_mr *above) {
  volatile uint64_t before = 0x1111 * step, mine[4] = {step, step + 1, step + 2, step + 3};
  unsigned char *moved = alloca(STEP + room);
  memset(moved, step, STEP);
  memset(moved + STEP, step, room);
  struct ibv_mr *mr = ibv_reg_mr(pd, (void *)mine, sizeof mine, LOCAL_WRITE);
  failed += !mr;
  registered++;
  if (above && ibv_dereg_mr(above) != 0) failed++;
  if (step < STEPS) {
    const int hands_on = step % 3 == 0;
    descend(step + 1, 0, hands_on ? mr : NULL);
    if (hands_on) mr = NULL;
  } else {
    wrong += go_down(40) != 0;
  }
  if (mr && ibv_dereg_mr(mr) != 0) failed++;
  for (int i = 0; i < STEP + room; i++) wrong += moved[i] != (unsigned char)step;
  for (int i = 0; i < 4; i++) wrong += mine[i] != (uint64_t)(step + i);
  wrong += before != (uint64_t)(0x1111 * step);
}

/* A frame whose variable changes while it is registered and deregistered. */
__attribute__((noinline)) static void interrupted(void) {
  volatile int here = 0;
  const struct itimerval often = {{0, 100}, {0, 100}}, never = {{0, 0}, {0, 0}};
  const int before = counted;
  counted_here = &here;
  signal(SIGALRM, tick);
  setitimer(ITIMER_REAL, &often, NULL);
  for (int i = 0; i < 60 || counted - before < 10; i++) {
    struct ibv_mr *mr = ibv_reg_mr(pd, (void *)&here, sizeof here, LOCAL_WRITE);
    if (!mr || ibv_dereg_mr(mr) != 0) failed++;
  }
  setitimer(ITIMER_REAL, &never, NULL);
  signal(SIGALRM, SIG_IGN);
  counted_here = NULL;
  wrong += counted - before != here;
}

static atomic_uintptr_t lowest_page;
static atomic_int done_with_it;

/* Register a page of the first thread's stack; that thread does not write to it meanwhile. */
static void *registers_anothers(void *unused) {
  uintptr_t page;
  while ((page = atomic_load(&lowest_page)) == 0) continue;
  struct ibv_mr *mr = ibv_reg_mr(pd, (void *)page, PAGE, LOCAL_WRITE);
  failed += !mr;
  registered++;
  atomic_store(&done_with_it, 1);
  while (atomic_load(&done_with_it) != 2) continue;
  if (mr && ibv_dereg_mr(mr) != 0) failed++;
  return unused;
}

__attribute__((noinline)) static uintptr_t begin_of_stack(void) {
  FILE *maps = fopen("/proc/self/maps", "r");
  char line[512];
  uintptr_t begin = 0;
  while (fgets(line, sizeof line, maps))
    if (strstr(line, "[stack]")) begin = strtoull(line, NULL, 16);
  fclose(maps);
  return begin;
}

/* Have the stack's lowest page registered, with nothing mapped below it; later the stack grows
 * by 40 pages. Compiled without the thread sanitizer, whose functions would write to the page
 * while this thread waits in it. */
__attribute__((no_sanitize_thread)) static void lowest(void) {
  pthread_t other;
  pthread_create(&other, NULL, registers_anothers, NULL);
  const uintptr_t begin = begin_of_stack();
  volatile char *down_to_it = alloca((uintptr_t)__builtin_frame_address(0) - begin - 512);
  *down_to_it = 1;
  atomic_store(&lowest_page, begin);
  while (!atomic_load(&done_with_it)) continue;
  wrong += go_down(40) != 0;
  atomic_store(&done_with_it, 2);
  pthread_join(other, NULL);
}

static void *thread(void *unused) {
  struct ibv_mr *mr;
  int early = 5;
  mr = ibv_reg_mr(pd, &early, sizeof early, LOCAL_WRITE);
  failed += !mr;
  descend(0, 0, NULL);
  if (mr && ibv_dereg_mr(mr) != 0) failed++;
  wrong += early != 5;
  errno = 0;
  char *block = (char *)((uintptr_t)pthread_self() & ~(uintptr_t)(PAGE - 1));
  mr = ibv_reg_mr(pd, block, PAGE, LOCAL_WRITE);
  printf("control block %d\n", mr ? 0 : errno);
  return unused;
}

static void report(const char *who) {
  printf("%s registered %d failed %d wrong %d\n", who, registered, failed, wrong);
  registered = failed = wrong = 0;
}

int main(void) {
  int count;
  struct ibv_device **list = ibv_get_device_list(&count);
  struct ibv_context *context = ibv_open_device(list[0]);
  pd = ibv_alloc_pd(context);
  lowest();
  report("lowest");
  descend(0, 0, NULL);
  report("main");
  /* Below the kernel's initial stack: each page used there is the lowest one. */
  for (int room = ROOM; room < ROOM + 3 * PAGE; room += 2500) descend(0, room, NULL);
  report("growing");
  interrupted();
  report("interrupted");
  pthread_t other;
  pthread_create(&other, NULL, thread, NULL);
  pthread_join(other, NULL);
  report("thread");
  printf("close %d", ibv_dealloc_pd(pd));
  printf(" %d\n", ibv_close_device(context));
  return 0;
}
