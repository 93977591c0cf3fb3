/* Records which code of a library runs, in a file that survives the process however it ends. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define UNTRACED __attribute__((no_sanitize_coverage))

enum { MOST_CODE = 4 << 20 };

extern const char __ehdr_start __attribute__((visibility("hidden")));
void __sanitizer_cov_trace_pc(void);

static uint8_t *reached;

/* Runs when the library is loaded, before the process enters its sandbox. */
__attribute__((constructor(101))) UNTRACED static void begin(void) {
  Dl_info found;
  if (!dladdr(&__ehdr_start, &found)) return;
  const char *slash = strrchr(found.dli_fname, '/');
  char path[4096];
  snprintf(path, sizeof path, "%s/%s", REACHED, slash ? slash + 1 : found.dli_fname);
  int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0) return;
  fchmod(fd, 0666);
  void *at = MAP_FAILED;
  if (ftruncate(fd, MOST_CODE) == 0) {
    at = mmap(NULL, MOST_CODE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  }
  close(fd);
  if (at != MAP_FAILED) reached = at;
}

/* The compiler inserts a call of it at the beginning of every basic block. */
UNTRACED void __sanitizer_cov_trace_pc(void) {
  uintptr_t offset = (uintptr_t)__builtin_return_address(0) - (uintptr_t)&__ehdr_start;
  if (reached != NULL && offset < MOST_CODE) reached[offset] = 1;
}
