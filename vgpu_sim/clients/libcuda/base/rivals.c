#define _GNU_SOURCE
#include "rivals.h"

#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* How the names of the libraries begin that have a counterpart here, and their folder. */
static const struct {
  const char *begin, *folder;
} counterparts[] = {
    {"libcublas", "math/"},   {"libcudnn", "math/"},    {"libcufft.so", "math/"},
    {"libcurand", "math/"},   {"libcusparse", "math/"}, {"libcusolver.so", "math/"},
    {"libnccl.so", "math/"},  {"libcupti.so", "math/"}, {"libcufile.so", "math/"},
    {"libnvshmem_host", "math/"}, {"libcudart.so", ""},
};

bool tsr_library_contains(const struct dl_phdr_info *library, uintptr_t address) {
  for (int i = 0; i < library->dlpi_phnum; i++) {
    const ElfW(Phdr) *part = &library->dlpi_phdr[i];
    const uintptr_t start = library->dlpi_addr + part->p_vaddr;
    if (part->p_type == PT_LOAD && address >= start && address - start < part->p_memsz) return true;
  }
  return false;
}

/* The folder of this library, with its slash. */
struct folder {
  char path[TSR_MAX_PATH_BYTES];
  size_t length;
};

static int look_for_own(struct dl_phdr_info *library, size_t size, void *state) {
  (void)size;
  struct folder *folder = state;
  const char *slash = strrchr(library->dlpi_name, '/');
  if (!slash || !tsr_library_contains(library, (uintptr_t)look_for_own)) return 0;
  const size_t length = (size_t)(slash + 1 - library->dlpi_name);
  if (length >= sizeof folder->path) return 1;
  memcpy(folder->path, library->dlpi_name, length);
  folder->path[length] = 0;
  folder->length = length;
  return 1;
}

/* Where a slice mounts the libraries of the folder math/. */
static const char in_pod[] = "/usr/lib/tessera/";

/* Write the path of Tessera's library of a name to ``own``; false if there is none. */
static bool find_own(char own[TSR_MAX_PATH_BYTES], const struct folder *folder,
                     const char *subfolder, const char *name) {
  const char *const folders[] = {folder->path, in_pod};
  for (size_t i = 0; i < sizeof folders / sizeof *folders; ++i) {
    const int length = snprintf(own, TSR_MAX_PATH_BYTES, "%s%s%s", folders[i], subfolder, name);
    if (length >= 0 && length < TSR_MAX_PATH_BYTES && access(own, R_OK) == 0) return true;
  }
  return false;
}

struct search {
  const struct folder *folder;
  struct tsr_rival *rival;
};

static int look_for_rival(struct dl_phdr_info *library, size_t size, void *state) {
  (void)size;
  const struct search *search = state;
  const struct folder *folder = search->folder;
  const char *path = library->dlpi_name, *slash = strrchr(path, '/');
  if (!slash || strncmp(path, folder->path, folder->length) == 0) return 0;
  for (size_t i = 0; i < sizeof counterparts / sizeof *counterparts; ++i) {
    if (strncmp(slash + 1, counterparts[i].begin, strlen(counterparts[i].begin)) != 0) continue;
    if (strlen(path) >= sizeof search->rival->path) return 0;
    char own[TSR_MAX_PATH_BYTES];
    if (!find_own(own, folder, counterparts[i].folder, slash + 1)) return 0;
    strcpy(search->rival->path, path);
    return 1;
  }
  return 0;
}

/* Names of libraries that have CUDA's major version. */
static const char *const versioned[] = {"libcudart.so.", "libcublas.so.", "libcublasLt.so."};

static int look_for_version(struct dl_phdr_info *library, size_t size, void *state) {
  (void)size;
  struct tsr_rival *rival = state;
  const char *slash = strrchr(library->dlpi_name, '/');
  if (!slash) return 0;
  if (strncmp(slash + 1, "libtessera-cuda", strlen("libtessera-cuda")) == 0)
    rival->is_preloaded = true;
  for (size_t i = 0; i < sizeof versioned / sizeof *versioned; ++i)
    if (strncmp(slash + 1, versioned[i], strlen(versioned[i])) == 0 &&
        atoi(slash + 1 + strlen(versioned[i])) == 12)
      rival->major = 12;
  return 0;
}

bool tsr_find_rival(struct tsr_rival *rival) {
  struct folder folder = {.length = 0};
  dl_iterate_phdr(look_for_own, &folder);
  const struct search search = {&folder, rival};
  if (folder.length == 0 || dl_iterate_phdr(look_for_rival, (void *)(uintptr_t)&search) == 0)
    return false;
  rival->major = 13;
  rival->is_preloaded = false;
  dl_iterate_phdr(look_for_version, rival);
  char name[sizeof "libtessera-cuda00.so"];
  snprintf(name, sizeof name, "libtessera-cuda%d.so", rival->major == 12 ? 12 : 13);
  return find_own(rival->preload, &folder, "math/", name);
}
