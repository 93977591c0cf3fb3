/* Finds and loads NVIDIA's NVRTC, once. */
#define _GNU_SOURCE
#include "library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "old_symbol.h"

TSR_OLD_SYMBOL(dlopen);
TSR_OLD_SYMBOL(dlsym);
TSR_OLD_SYMBOL(dlerror);

#define EXPORT __attribute__((visibility("default")))

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool searched, tried; /* with lock */
static char path[PATH_BYTES]; /* with lock; empty: not found */
static void *library;        /* with lock; NULL: not loaded */

static void say(const char *what, const char *why) {
  const char *log = getenv("TESSERA_LOG");
  if (!log || strcmp(log, "quiet") != 0)
    fprintf(stderr,
            "tessera: %s: %s: install nvidia-cuda-nvrtc, or name the folder of libnvrtc.so.%d in"
            " TESSERA_NVRTC\n",
            what, why, TSR_MAJOR);
}

static void search(void) {
  if (!searched && !places_find(TSR_MAJOR, path)) path[0] = 0;
  searched = true;
}

EXPORT const char *tessera_nvrtc_find(void);

/* Return the path of NVIDIA's NVRTC, or NULL: libcuda then does not load this library. */
const char *tessera_nvrtc_find(void) {
  pthread_mutex_lock(&lock);
  search();
  pthread_mutex_unlock(&lock);
  return path[0] ? path : NULL;
}

/* Load the builtins from NVRTC's folder: that of version 13.0 does not search there. */
static void load_builtins(void *nvrtc) {
  int (*const version)(int *, int *) = dlsym(nvrtc, "nvrtcVersion");
  int major = 0, minor = 0;
  if (!version || version(&major, &minor) != 0) return;
  char builtins[PATH_BYTES];
  const int folder = (int)(strrchr(path, '/') - path);
  const int wanted = snprintf(builtins, sizeof builtins, "%.*s/libnvrtc-builtins.so.%d.%d", folder,
                              path, major, minor);
  if (wanted > 0 && wanted < (int)sizeof builtins) dlopen(builtins, RTLD_LAZY | RTLD_LOCAL);
}

static void load(void) {
  search();
  if (!path[0]) {
    say("NVRTC", "not found");
    return;
  }
  library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
  if (library)
    load_builtins(library);
  else
    say(path, dlerror());
}

void *library_symbol(const char *name) {
  pthread_mutex_lock(&lock);
  if (!tried) load();
  tried = true;
  void *const from = library;
  pthread_mutex_unlock(&lock);
  if (!from) return NULL;
  void *const symbol = dlsym(from, name);
  if (!symbol) say(name, "not in the installed NVRTC, which is older");
  return symbol;
}
