#define _GNU_SOURCE
#include "registered/host_maps.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

struct reader {
  int fd;
  ssize_t got, at;
  bool failed;
  char buffer[4096];
};

/* Return the next byte, or -1 at the end. */
static int next(struct reader *reader) {
  if (reader->at == reader->got) {
    reader->got = read(reader->fd, reader->buffer, sizeof reader->buffer);
    reader->at = 0;
    if (reader->got <= 0) {
      reader->failed = reader->got < 0;
      reader->got = 0;
      return -1;
    }
  }
  return (unsigned char)reader->buffer[reader->at++];
}

/* Read a number and the character after it. */
static uint64_t number(struct reader *reader, unsigned base) {
  uint64_t value = 0;
  for (;;) {
    const int c = next(reader);
    unsigned digit = base;
    if (c >= '0' && c <= '9') digit = (unsigned)(c - '0');
    if (c >= 'a' && c <= 'f') digit = (unsigned)(c - 'a' + 10);
    if (digit >= base) return value;
    value = value * base + digit;
  }
}

enum { NAME_BYTES = 16 };

/* Read the rest of a line: spaces and the beginning of a name. */
static void name(struct reader *reader, char *text) {
  size_t length = 0;
  for (int c = next(reader); c >= 0 && c != '\n'; c = next(reader))
    if ((length || c != ' ') && length < NAME_BYTES - 1) text[length++] = (char)c;
  text[length] = 0;
}

static bool is_special(const char *text) {
  if (text[0] == '[') return strcmp(text, "[heap]") != 0 && strncmp(text, "[anon", 5) != 0;
  return strncmp(text, "/dev/", 5) == 0 || strncmp(text, "/anon_hugepage", 14) == 0;
}

/* Read a line; false at the end. */
static bool read_mapping(struct reader *reader, struct tsr_mapping *mapping) {
  *mapping = (struct tsr_mapping){.begin = number(reader, 16)};
  if (reader->got == 0) return false;
  mapping->end = number(reader, 16);
  mapping->readable = next(reader) == 'r';
  mapping->writable = next(reader) == 'w';
  mapping->executable = next(reader) == 'x';
  mapping->shared = next(reader) == 's';
  next(reader);
  mapping->file_offset = number(reader, 16);
  mapping->major = (uint32_t)number(reader, 16);
  mapping->minor = (uint32_t)number(reader, 16);
  /* The number ends with a space or, if there is no name, with the line. */
  mapping->inode = number(reader, 10);
  char text[NAME_BYTES] = "";
  if (reader->buffer[reader->at - 1] != '\n') name(reader, text);
  mapping->heap = strcmp(text, "[heap]") == 0;
  mapping->special = is_special(text);
  return true;
}

bool tsr_mapping_from(uint64_t address, struct tsr_mapping *found) {
  struct reader reader = {.fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC)};
  if (reader.fd < 0) return false;
  bool any = false;
  while ((any = read_mapping(&reader, found)) && found->end <= address) continue;
  close(reader.fd);
  return any;
}

static bool is_of(const struct tsr_mapping *mapping, const struct tsr_mapping *file) {
  return mapping->shared && mapping->inode == file->inode && mapping->major == file->major &&
         mapping->minor == file->minor;
}

int tsr_mapping_of(uint64_t address, const struct tsr_mapping *file, struct tsr_mapping *found) {
  struct reader reader = {.fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC)};
  if (reader.fd < 0) return -1;
  bool any = false;
  while ((any = read_mapping(&reader, found)) && (found->end <= address || !is_of(found, file)))
    continue;
  close(reader.fd);
  return reader.failed ? -1 : any;
}

int tsr_mappings_find(uint64_t begin, uint64_t end, struct tsr_mapping *found, int room) {
  struct reader reader = {.fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC)};
  if (reader.fd < 0) return -1;
  int count = 0;
  uint64_t reached = begin;
  struct tsr_mapping mapping;
  while (reached < end && read_mapping(&reader, &mapping)) {
    if (mapping.end <= reached) continue;
    if (mapping.begin > reached || count == room) break;
    mapping.file_offset += reached - mapping.begin;
    mapping.begin = reached;
    if (mapping.end > end) mapping.end = end;
    reached = mapping.end;
    found[count++] = mapping;
  }
  close(reader.fd);
  return reached == end ? count : -1;
}
