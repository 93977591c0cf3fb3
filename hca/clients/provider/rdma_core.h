/* rdma-core's private interface 34, as far as a provider needs it: what libibverbs.so.1 of
 * versions 39 to 56 calls, and what it offers providers. No installed header declares it, so
 * provider.c verifies that the library that loads it has the same order of operations. */
#ifndef TSR_PROVIDER_RDMA_CORE_H
#define TSR_PROVIDER_RDMA_CORE_H

#include <stdbool.h>
#include <sys/types.h>

#include "verbs_types.h"

/* A device that libibverbs found in sysfs; the fields after its name are not used here. */
struct verbs_sysfs_dev {
  void *entry[2];
  void *provider_data;
  const void *match;
  unsigned int flags;
  char sysfs_name[IBV_SYSFS_NAME_MAX];
  dev_t cdev;
  char ibdev_name[IBV_SYSFS_NAME_MAX];
};

/* libibverbs' structure for a device, with room for fields that later versions have added. */
struct verbs_device {
  struct ibv_device device;
  uint64_t kept[64];
};

struct verbs_device_ops {
  const char *name;
  uint32_t match_min_abi_version, match_max_abi_version;
  const void *match_table;
  const void *static_providers;
  bool (*match_device)(struct verbs_sysfs_dev *found);
  struct verbs_context *(*alloc_context)(struct ibv_device *device, int cmd_fd, void *private_data);
  struct verbs_context *(*import_context)(struct ibv_device *device, int cmd_fd);
  struct verbs_device *(*alloc_device)(struct verbs_sysfs_dev *found);
  void (*uninit_device)(struct verbs_device *device);
  void *later[8]; /* zero in unknown versions */
};

void verbs_register_driver_34(const struct verbs_device_ops *ops);
void *_verbs_init_and_alloc_context(struct ibv_device *device, int cmd_fd, size_t bytes,
                                    struct verbs_context *offset, uint32_t driver);
void verbs_set_ops(struct verbs_context *context, const void *ops);
void verbs_uninit_context(struct verbs_context *context);

#endif
