/* Loads Tessera's nvJitLink and NVRTC libraries together with this one.

   Clients of them first look for one that is loaded (cuda-pathfinder, "Search order"), and only
   then for NVIDIA's in Python's packages, whose output is machine code (ADR 133, ADR 141). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/environment.h"
#include "old_symbol.h"

TSR_OLD_SYMBOL(dlopen);
TSR_OLD_SYMBOL(dladdr);
TSR_OLD_SYMBOL(dlclose);
TSR_OLD_SYMBOL(dlsym);
/* Before glibc 2.34 they are in libdl.so.2, which a program that has no dlopen has not loaded. */
#pragma weak dlopen
#pragma weak dladdr
#pragma weak dlclose
#pragma weak dlsym

enum { PATH_BYTES = 4096 };

struct folder {
  const char *path;
  int length;
};

/* Where containers have them: the folder of libcuda.so.1 there may have the image's own. */
static const char container_directory[] = "/usr/lib/tessera";

static void *load_from(const struct folder *folder, const char *name) {
  char path[PATH_BYTES];
  const int wanted = snprintf(path, sizeof path, "%.*s/%s", folder->length, folder->path, name);
  return wanted > 0 && wanted < (int)sizeof path ? dlopen(path, RTLD_LAZY | RTLD_LOCAL) : NULL;
}

/* A library that is not there is no error. */
static void *load(const struct folder *own, const char *name) {
  const struct folder in_containers = {container_directory, sizeof container_directory - 1};
  void *library = load_from(&in_containers, name);
  return library ? library : load_from(own, name);
}

/* NVRTC is of use only where the program would find NVIDIA's, which it calls, and where NVIDIA's
   is not loaded already. */
static void load_compiler(const struct folder *own, const char *name) {
  void *loaded = dlopen(name, RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);
  if (loaded) {
    dlclose(loaded);
    return;
  }
  void *library = load(own, name);
  if (!library) return;
  const char *(*find)(void);
  *(void **)&find = dlsym(library, "tessera_nvrtc_find");
  if (!find || !find()) dlclose(library);
}

__attribute__((constructor)) static void load_linkers(void) {
  static const char own_address = 0;
  Dl_info own;
  if (!dlopen || !dladdr || !dlclose || !dlsym) return;
  if (!dladdr(&own_address, &own) || !own.dli_fname) return;
  const char *end = strrchr(own.dli_fname, '/');
  if (!end) return;
  const struct folder folder = {own.dli_fname, (int)(end - own.dli_fname)};
  if (tsr_loads_linkers()) {
    load(&folder, "libnvJitLink.so.13");
    load(&folder, "libnvJitLink.so.12");
  }
  if (tsr_loads_compilers()) {
    load_compiler(&folder, "libnvrtc.so.13");
    load_compiler(&folder, "libnvrtc.so.12");
  }
}
