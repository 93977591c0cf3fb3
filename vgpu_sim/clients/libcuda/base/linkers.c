/* Loads Tessera's nvJitLink libraries together with this one.

   Clients of nvJitLink first look for one that is loaded (cuda-pathfinder, "Search order"), and
   only then for NVIDIA's in Python's packages, whose output is machine code (ADR 133). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/environment.h"

#if defined(__x86_64__) && defined(__GLIBC__) /* as in clients/program/start.c */
__asm__(".symver dlopen,dlopen@GLIBC_2.2.5");
__asm__(".symver dladdr,dladdr@GLIBC_2.2.5");
#endif
/* Before glibc 2.34 they are in libdl.so.2, which a program that has no dlopen has not loaded. */
#pragma weak dlopen
#pragma weak dladdr

enum { PATH_BYTES = 4096 };

/* Where containers have them: the folder of libcuda.so.1 there may have the image's own. */
static const char container_directory[] = "/usr/lib/tessera";

static bool load_from(const char *directory, int length, const char *name) {
  char path[PATH_BYTES];
  const int wanted = snprintf(path, sizeof path, "%.*s/%s", length, directory, name);
  const int mode = RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE;
  return wanted > 0 && wanted < (int)sizeof path && dlopen(path, mode);
}

/* A library that is not there is no error. */
static void load(const char *directory, int length, const char *name) {
  if (!load_from(container_directory, sizeof container_directory - 1, name))
    load_from(directory, length, name);
}

__attribute__((constructor)) static void load_linkers(void) {
  static const char own_address = 0;
  Dl_info own;
  if (!dlopen || !dladdr || !tsr_loads_linkers()) return;
  if (!dladdr(&own_address, &own) || !own.dli_fname) return;
  const char *end = strrchr(own.dli_fname, '/');
  if (!end) return;
  load(own.dli_fname, (int)(end - own.dli_fname), "libnvJitLink.so.13");
  load(own.dli_fname, (int)(end - own.dli_fname), "libnvJitLink.so.12");
}
