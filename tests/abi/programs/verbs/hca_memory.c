/* Registers memory of all kinds; prints one line per case. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "api.h"

struct ibv_device **ibv_get_device_list(int *count);
struct ibv_context *ibv_open_device(struct ibv_device *device);
int ibv_close_device(struct ibv_context *context);
struct ibv_pd *ibv_alloc_pd(struct ibv_context *context);
int ibv_dealloc_pd(struct ibv_pd *pd);
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access);
int ibv_dereg_mr(struct ibv_mr *mr);
int ibv_fork_init(void);

enum { LOCAL_WRITE = 1, PAGE = 4096 };

static struct ibv_pd *pd;

static struct ibv_mr *reg(void *address, size_t bytes) {
  errno = 0;
  return ibv_reg_mr(pd, address, bytes, LOCAL_WRITE);
}

static int count_shared(void) {
  FILE *maps = fopen("/proc/self/maps", "r");
  char line[512];
  int count = 0;
  while (fgets(line, sizeof line, maps)) count += strstr(line, "tessera-hca-memory") != NULL;
  fclose(maps);
  return count;
}

static void filled(void) {
  unsigned char *heap = malloc(100000);
  for (int i = 0; i < 100000; i++) heap[i] = (unsigned char)(i * 7);
  struct ibv_mr *whole = reg(heap, 100000), *part = reg(heap + 5000, 1000), *odd = reg(heap + 1, 1);
  int same = 1;
  for (int i = 0; i < 100000; i++) same &= heap[i] == (unsigned char)(i * 7);
  printf("heap %d %d %d same %d distinct %d\n", !!whole, !!part, !!odd, same,
         whole->lkey != part->lkey);
  printf("dereg %d", ibv_dereg_mr(whole) + ibv_dereg_mr(odd));
  printf(" %d", ibv_dereg_mr(part));
  for (int i = 0; i < 100000; i++) same &= heap[i] == (unsigned char)(i * 7);
  printf(" same %d shared %d\n", same, count_shared());
  free(heap);
}

static void overlapping(void) {
  char *pages = mmap(NULL, 6 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  strcpy(pages + 3 * PAGE, "middle");
  struct ibv_mr *middle = reg(pages + 2 * PAGE, 2 * PAGE), *all = reg(pages, 6 * PAGE);
  printf("overlap %d %d %s\n", !!middle, !!all, pages + 3 * PAGE);
  int ended = ibv_dereg_mr(middle) + ibv_dereg_mr(all);
  printf("dereg %d shared %d\n", ended, count_shared());
  /* Unmapped without notifying the library, and mapped again: the new memory is not registered. */
  struct ibv_mr *old = reg(pages, 2 * PAGE);
  munmap(pages, 2 * PAGE);
  mmap(pages, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  strcpy(pages, "fresh");
  struct ibv_mr *fresh = reg(pages, 2 * PAGE);
  printf("remapped %d %s", !!fresh, pages);
  ended = ibv_dereg_mr(old);
  ended += ibv_dereg_mr(fresh);
  printf(" dereg %d %s\n", ended, pages);
}

/* Pages that the program maps over a part of a region are not registered; the rest is unchanged. */
static void partly_remapped(void) {
  char *pages = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  strcpy(pages, "first");
  strcpy(pages + 3 * PAGE, "last");
  struct ibv_mr *old = reg(pages, 4 * PAGE);
  mmap(pages + PAGE, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  strcpy(pages + PAGE, "fresh");
  struct ibv_mr *fresh = reg(pages + PAGE, PAGE);
  struct ibv_mr *rest = reg(pages + 2 * PAGE, PAGE), *whole = reg(pages, 4 * PAGE);
  printf("partly %d %d %d shared %d", !!fresh, !!rest, !!whole, count_shared());
  int ended = ibv_dereg_mr(old);
  if (fresh) ended += ibv_dereg_mr(fresh);
  if (rest) ended += ibv_dereg_mr(rest);
  if (whole) ended += ibv_dereg_mr(whole);
  printf(" dereg %d %s %s %s shared %d\n", ended, pages, pages + PAGE, pages + 3 * PAGE,
         count_shared());
}

static void refused(void) {
  char *shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  char *hole = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  char local[64] = "";
  munmap(hole + PAGE, PAGE);
  printf("shared %d", reg(shared, PAGE) == NULL ? errno : 0);
  printf(" hole %d", reg(hole, 3 * PAGE) == NULL ? errno : 0);
  struct ibv_mr *stack = reg(local, sizeof local);
  printf(" stack %d", stack ? ibv_dereg_mr(stack) : errno);
  printf(" code %d", reg((void *)(uintptr_t)&refused, 16) == NULL ? errno : 0);
  printf(" nothing %d", reg(local, 0) == NULL ? errno : 0);
  printf(" huge %d\n", ibv_reg_mr(pd, hole, 8, LOCAL_WRITE | 1 << 7) == NULL ? errno : 0);
  printf("fork %d", ibv_fork_init());
  printf(" shared %d\n", count_shared());
}

/* An address at which libcuda would place a device, in a program without one. */
static void aperture(void) {
  char *own = mmap((void *)(uintptr_t)0x300000000000, PAGE, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  struct ibv_mr *mr = reg(own, PAGE);
  printf("aperture %d %d", own == (char *)(uintptr_t)0x300000000000, !!mr);
  printf(" dereg %d", mr ? ibv_dereg_mr(mr) : -1);
  printf(" nothing there %d\n", reg((void *)(uintptr_t)0x200000000000, PAGE) == NULL ? errno : 0);
}

int main(void) {
  int count;
  struct ibv_device **list = ibv_get_device_list(&count);
  struct ibv_context *context = ibv_open_device(list[0]);
  pd = ibv_alloc_pd(context);
  filled();
  overlapping();
  partly_remapped();
  aperture();
  refused();
  printf("close %d", ibv_dealloc_pd(pd));
  printf(" %d\n", ibv_close_device(context));
  return 0;
}
