#define _GNU_SOURCE
#include "registered/host_pages.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif
#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif
/* Of Linux 5.13, which older headers lack. */
#ifndef UFFDIO_REGISTER_MODE_MINOR
#define UFFDIO_REGISTER_MODE_MINOR ((uint64_t)1 << 2)
#define UFFD_FEATURE_MINOR_SHMEM (1 << 10)
#endif

static void *pointer(uint64_t address) { return (void *)(uintptr_t)address; }

/* Have accesses to missing pages of a range wait until the returned descriptor is closed. -1: the
 * kernel does not permit it. */
static int guard(uint64_t begin, uint64_t bytes, uint64_t mode) {
  int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
  if (fd < 0) return -1;
  const bool minor = mode == UFFDIO_REGISTER_MODE_MINOR;
  struct uffdio_api api = {.api = UFFD_API, .features = minor ? UFFD_FEATURE_MINOR_SHMEM : 0};
  struct uffdio_register wanted = {.range = {.start = begin, .len = bytes}, .mode = mode};
  if (ioctl(fd, UFFDIO_API, &api) == 0 && ioctl(fd, UFFDIO_REGISTER, &wanted) == 0) return fd;
  close(fd);
  return -1;
}

static void release(int fd) {
  if (fd >= 0) close(fd);
}

/* Map shared memory a second time: at `begin`, or anywhere if that is 0. */
static void *map_again(uint64_t shared, uint64_t bytes, uint64_t begin) {
  if (begin) return mremap(pointer(shared), 0, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, pointer(begin));
  return mremap(pointer(shared), 0, bytes, MREMAP_MAYMOVE);
}

/* A signal's handler that accesses a guarded page would wait for the thread that it interrupts. */
static void block_signals(sigset_t *before) {
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, before);
}

static bool replace_by_shared(uint64_t begin, uint64_t bytes, uint64_t shared) {
  int guarded = guard(begin, bytes, UFFDIO_REGISTER_MODE_MISSING);
  /* The range stays mapped, without pages, so that accesses wait. */
  void *moved = MAP_FAILED;
  if (guarded >= 0)
    moved = mremap(pointer(begin), bytes, bytes, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);
  if (moved == MAP_FAILED) {
    release(guarded); /* or this thread would wait for itself */
    guarded = -1;
  }
  memcpy(pointer(shared), moved == MAP_FAILED ? pointer(begin) : moved, bytes);
  const bool mapped = map_again(shared, bytes, begin) != MAP_FAILED;
  /* A child keeps the content: registered.c copies it there. */
  if (mapped) madvise(pointer(begin), bytes, MADV_DOFORK);
  if (moved != MAP_FAILED) {
    const bool back = !mapped && mremap(moved, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED,
                                        pointer(begin)) != MAP_FAILED;
    if (!mapped && !back) { /* too many mappings: copy, which must not wait for this thread */
      release(guarded);
      guarded = -1;
      memcpy(pointer(begin), moved, bytes);
    }
    if (!back) munmap(moved, bytes);
  }
  release(guarded);
  return mapped;
}

static bool replace_by_private(uint64_t begin, uint64_t bytes) {
  void *source = map_again(begin, bytes, 0);
  if (source == MAP_FAILED) return false;
  void *fresh = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  bool mapped = false;
  if (fresh != MAP_FAILED) {
    const int guarded = guard(begin, bytes, UFFDIO_REGISTER_MODE_MINOR);
    if (guarded >= 0) madvise(pointer(begin), bytes, MADV_DONTNEED); /* unmaps, keeps content */
    memcpy(fresh, source, bytes);
    mapped = mremap(fresh, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, pointer(begin)) != MAP_FAILED;
    if (!mapped) munmap(fresh, bytes);
    release(guarded);
  }
  munmap(source, bytes);
  return mapped;
}

bool tsr_pages_share(uint64_t begin, uint64_t bytes, uint64_t shared) {
  sigset_t before;
  block_signals(&before);
  const bool replaced = replace_by_shared(begin, bytes, shared);
  sigprocmask(SIG_SETMASK, &before, NULL);
  return replaced;
}

bool tsr_pages_make_private(uint64_t begin, uint64_t bytes) {
  sigset_t before;
  block_signals(&before);
  const bool replaced = replace_by_private(begin, bytes);
  sigprocmask(SIG_SETMASK, &before, NULL);
  return replaced;
}
