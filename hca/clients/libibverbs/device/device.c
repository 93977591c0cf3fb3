/* Devices: at most one, the HCA function of the run or pod. Answers queries of its attributes. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "api.h"
#include "command/command.h"
#include "verbs_calls.h"
#include "hca_path.h"

enum {
  PART = 1, /* the only model */
  GID_ENTRIES = 8, /* entries of the GID table; only the first few are in use */
};

static struct tsr_device *describe(const char *path, const tessera_hca_device *info) {
  struct tsr_device *device = calloc(1, sizeof *device);
  if (!device) return NULL;
  device->info = *info;
  struct ibv_device *ibv = &device->ibv;
  ibv->node_type = IBV_NODE_CA;
  ibv->transport_type = IBV_TRANSPORT_IB;
  snprintf(ibv->name, sizeof ibv->name, "%s", info->name);
  snprintf(ibv->dev_name, sizeof ibv->dev_name, "uverbs0");
  snprintf(ibv->ibdev_path, sizeof ibv->ibdev_path, "%s", info->sysfs);
  snprintf(device->socket_path, sizeof device->socket_path, "%s", path);
  return device;
}

struct ibv_device **tsr_ibv_get_device_list(int *count) {
  struct ibv_device **list = calloc(2, sizeof *list);
  if (count) *count = 0;
  const char *path = tsr_hca_path();
  if (!list || !path) return list;
  tessera_hca_device info;
  int socket, fds[2];
  if (tsr_hca_open(path, &info, &socket, fds) != 0) return list;
  close(fds[0]);
  close(fds[1]);
  close(socket);
  struct tsr_device *device = describe(path, &info);
  if (device) list[0] = &device->ibv;
  if (count) *count = device != NULL;
  return list;
}

void tsr_ibv_free_device_list(struct ibv_device **list) {
  for (struct ibv_device **device = list; *device; device++) free(*device);
  free(list);
}

const char *tsr_ibv_get_device_name(struct ibv_device *device) { return device->name; }

uint64_t tsr_ibv_get_device_guid(struct ibv_device *device) {
  uint64_t guid;
  memcpy(&guid, ((struct tsr_device *)device)->info.guid, sizeof guid);
  return guid;
}

int tsr_ibv_get_device_index(struct ibv_device *device) {
  (void)device;
  return 0;
}

static void set_operations(struct tsr_context *context) {
  struct ibv_context *ibv = &context->verbs.context;
  ibv->ops = (struct ibv_context_ops){.alloc_mw = tsr_alloc_mw,
                                      .bind_mw = tsr_bind_mw,
                                      .dealloc_mw = tsr_dealloc_mw,
                                      .poll_cq = tsr_poll_cq,
                                      .req_notify_cq = tsr_req_notify_cq,
                                      .post_srq_recv = tsr_post_srq_recv,
                                      .post_send = tsr_post_send,
                                      .post_recv = tsr_post_recv};
  ibv->abi_compat = (void *)UINTPTR_MAX;
  ibv->num_comp_vectors = 1;
  context->verbs.sz = sizeof context->verbs;
  context->verbs.query_port = tsr_query_port;
  context->verbs.create_qp_ex = tsr_create_qp_ex;
  context->verbs.create_cq_ex = tsr_create_cq_ex;
  context->verbs.create_srq_ex = tsr_create_srq_ex;
  context->verbs.query_rt_values = tsr_query_rt_values;
  context->verbs.query_device_ex = tsr_query_device_ex;
  context->verbs.advise_mr = tsr_advise_mr;
  context->verbs.alloc_td = tsr_alloc_td;
  context->verbs.dealloc_td = tsr_dealloc_td;
  context->verbs.alloc_parent_domain = tsr_alloc_parent_domain;
  context->verbs.ibv_create_flow = tsr_create_flow;
  context->verbs.ibv_destroy_flow = tsr_destroy_flow;
  context->verbs.create_wq = tsr_create_wq;
  context->verbs.modify_wq = tsr_modify_wq;
  context->verbs.destroy_wq = tsr_destroy_wq;
  context->verbs.create_rwq_ind_table = tsr_create_rwq_ind_table;
  context->verbs.destroy_rwq_ind_table = tsr_destroy_rwq_ind_table;
}

static void release(struct tsr_context *context) {
  struct ibv_context *ibv = &context->verbs.context;
  if (context->page) munmap(context->page, TESSERA_HCA_PAGE_BYTES);
  if (context->doorbell_fd >= 0) close(context->doorbell_fd);
  if (ibv->async_fd >= 0) close(ibv->async_fd);
  if (context->socket >= 0) close(context->socket);
  free(context);
}

struct ibv_context *tsr_ibv_open_device(struct ibv_device *wanted) {
  const struct tsr_device *device = (const struct tsr_device *)wanted;
  struct tsr_context *context = calloc(1, sizeof *context);
  if (!context) return NULL;
  struct ibv_context *ibv = &context->verbs.context;
  context->device = *device; /* programs may free the list while they have a device open */
  context->doorbell_fd = context->socket = ibv->cmd_fd = ibv->async_fd = -1;
  ibv->device = &context->device.ibv;
  pthread_mutex_init(&ibv->mutex, NULL);
  pthread_mutex_init(&context->asking, NULL);
  pthread_mutex_init(&context->registering, NULL);
  set_operations(context);
  int fds[2];
  int error = tsr_hca_open(device->socket_path, &context->device.info, &context->socket, fds);
  if (error == 0) {
    ibv->cmd_fd = context->socket;
    context->doorbell_fd = fds[1];
    context->page = tsr_map(fds[0], TESSERA_HCA_PAGE_BYTES);
    error = context->page ? tsr_ask(context, TESSERA_HCA_MESSAGE_ASYNC, NULL, 0, NULL, 0,
                                    &ibv->async_fd)
                          : errno;
  }
  if (error == 0) return ibv;
  release(context);
  errno = error;
  return NULL;
}

int tsr_ibv_close_device(struct ibv_context *context) {
  release(tsr_of(context));
  return 0;
}

int tsr_ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr) {
  const tessera_hca_device *info = &tsr_of(context)->device.info;
  *attr = (struct ibv_device_attr){.max_mr_size = TESSERA_HCA_MAX_MR_BYTES,
                                   .page_size_cap = TESSERA_HCA_PAGE_BYTES,
                                   .vendor_part_id = PART,
                                   .max_qp = TESSERA_HCA_MAX_QPS,
                                   .max_qp_wr = TESSERA_HCA_MAX_WR,
                                   .device_cap_flags = IBV_DEVICE_RC_RNR_NAK_GEN |
                                                       IBV_DEVICE_MEM_WINDOW |
                                                       IBV_DEVICE_MEM_WINDOW_TYPE_2B,
                                   .max_sge = TESSERA_HCA_MAX_SGE,
                                   .max_sge_rd = TESSERA_HCA_MAX_SGE,
                                   .max_cq = TESSERA_HCA_MAX_CQS,
                                   .max_cqe = TESSERA_HCA_MAX_CQE,
                                   .max_mr = TESSERA_HCA_MAX_MRS,
                                   .max_pd = TESSERA_HCA_MAX_PDS,
                                   .max_qp_rd_atom = TESSERA_HCA_MAX_RD_ATOMIC,
                                   .max_res_rd_atom =
                                       TESSERA_HCA_MAX_RD_ATOMIC * TESSERA_HCA_MAX_QPS,
                                   .max_qp_init_rd_atom = TESSERA_HCA_MAX_RD_ATOMIC,
                                   .atomic_cap = IBV_ATOMIC_GLOB,
                                   .max_mw = TESSERA_HCA_MAX_MWS,
                                   .max_raw_ethy_qp = TESSERA_HCA_MAX_QPS,
                                   .max_mcast_grp = TESSERA_HCA_MAX_MCAST_ATTACH,
                                   .max_mcast_qp_attach = TESSERA_HCA_MAX_MCAST_ATTACH,
                                   .max_total_mcast_qp_attach = TESSERA_HCA_MAX_MCAST_ATTACH,
                                   .max_ah = TESSERA_HCA_MAX_AHS,
                                   .max_srq = TESSERA_HCA_MAX_SRQS,
                                   .max_srq_wr = TESSERA_HCA_MAX_WR,
                                   .max_srq_sge = TESSERA_HCA_MAX_SGE,
                                   .max_pkeys = TESSERA_HCA_PKEYS,
                                   .phys_port_cnt = 1};
  snprintf(attr->fw_ver, sizeof attr->fw_ver, "%s", info->firmware);
  /* The first three bytes of a GUID identify the manufacturer. */
  attr->vendor_id = (uint32_t)(info->guid[0] << 16 | info->guid[1] << 8 | info->guid[2]);
  memcpy(&attr->node_guid, info->guid, sizeof attr->node_guid);
  attr->sys_image_guid = attr->node_guid;
  return 0;
}

/* Operations that may use on-demand paging; see memory/paging.c. */
enum {
  PAGED_UD = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV,
  PAGED_UC = PAGED_UD | IBV_ODP_SUPPORT_WRITE,
  PAGED_RC = PAGED_UC | IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC,
};

int tsr_query_device_ex(struct ibv_context *context, const uint32_t *input,
                        struct ibv_device_attr_ex *attr, size_t size) {
  (void)input; /* its comp_mask is 0, as the header has checked */
  if (size < sizeof attr->orig_attr) return EINVAL;
  struct ibv_device_attr_ex whole = {.completion_timestamp_mask = UINT64_MAX,
                                     .hca_core_clock = 1000000, /* kHz: counts ns */
                                     .phys_port_cnt_ex = 1};
  whole.odp_caps.general = IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT;
  whole.odp_caps.rc = PAGED_RC;
  whole.odp_caps.uc = PAGED_UC;
  whole.odp_caps.ud = PAGED_UD;
  whole.rss_caps.supported_qpts = 1u << TESSERA_VERBS_QP_TYPE_RAW_PACKET;
  whole.rss_caps.max_tables = TESSERA_HCA_MAX_QPS;
  whole.rss_caps.max_table_size = TESSERA_HCA_STEER_TARGETS;
  whole.rss_caps.fields_mask = TSR_RX_HASH_KNOWN;
  whole.rss_caps.function = IBV_RX_HASH_FUNC_TOEPLITZ;
  whole.max_wq_type_rq = TESSERA_HCA_MAX_QPS;
  tsr_ibv_query_device(context, &whole.orig_attr);
  whole.device_cap_flags_ex = whole.orig_attr.device_cap_flags;
  memset(attr, 0, size);
  memcpy(attr, &whole, size < sizeof whole ? size : sizeof whole);
  return 0;
}

int tsr_query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr,
                   size_t size) {
  const tessera_hca_device *info = &tsr_of(context)->device.info;
  if (port != 1) return EINVAL;
  const struct ibv_port_attr whole = {
      .state = IBV_PORT_ACTIVE,
      .max_mtu = (int)info->mtu,
      .active_mtu = (int)info->mtu,
      .gid_tbl_len = GID_ENTRIES,
      .port_cap_flags = IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS,
      .max_msg_sz = TESSERA_HCA_MAX_MESSAGE_BYTES,
      .pkey_tbl_len = TESSERA_HCA_PKEYS,
      .max_vl_num = 1,
      .active_width = (uint8_t)info->width,
      .active_speed = (uint8_t)info->speed,
      .phys_state = 5,    /* LinkUp */
      .link_layer = IBV_LINK_LAYER_ETHERNET};
  memset(attr, 0, size);
  memcpy(attr, &whole, size < sizeof whole ? size : sizeof whole);
  return 0;
}

/* Programs that call the exported symbol were compiled before the last two fields existed. */
int tsr_ibv_query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr) {
  return tsr_query_port(context, port, attr, offsetof(struct ibv_port_attr, flags));
}

/* Return the GID of a table entry, zeros where it is unused; NULL where there is no such entry. */
static const uint8_t *gid_at(struct ibv_context *context, uint32_t port, uint32_t index) {
  static const uint8_t empty[sizeof(union ibv_gid)];
  if (port != 1 || index >= GID_ENTRIES) return NULL;
  return index < TESSERA_HCA_GIDS ? tsr_of(context)->device.info.gids[index] : empty;
}

int tsr_ibv_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid) {
  const uint8_t *own = gid_at(context, port, (uint32_t)index);
  if (!own) {
    errno = EINVAL;
    return -1;
  }
  memcpy(gid, own, sizeof *gid);
  return 0;
}

int tsr__ibv_query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index,
                          struct ibv_gid_entry *entry, uint32_t flags, size_t size) {
  if (flags != 0 || size < sizeof *entry) return EINVAL;
  const uint8_t *own = gid_at(context, port, index);
  if (!own) return EINVAL;
  if (index >= TESSERA_HCA_GIDS) return ENODATA;
  memset(entry, 0, size);
  memcpy(&entry->gid, own, sizeof entry->gid);
  entry->gid_index = index;
  entry->port_num = port;
  entry->gid_type = IBV_GID_TYPE_ROCE_V2;
  return 0;
}

ssize_t tsr__ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
                                 size_t count, uint32_t flags, size_t size) {
  if (flags != 0 || size < sizeof *entries) return -EINVAL;
  if (count < TESSERA_HCA_GIDS) return -EINVAL;
  for (uint32_t i = 0; i < TESSERA_HCA_GIDS; i++)
    tsr__ibv_query_gid_ex(context, 1, i, (void *)((uint8_t *)entries + i * size), 0, size);
  return TESSERA_HCA_GIDS;
}

/* The private enumeration of GID types: 1 is RoCE version 2; rdma-core returns 0 for unused
 * entries. */
int tsr_ibv_query_gid_type(struct ibv_context *context, uint8_t port, unsigned index,
                           unsigned *type) {
  if (!gid_at(context, port, index)) {
    errno = EINVAL;
    return -1;
  }
  *type = index < TESSERA_HCA_GIDS;
  return 0;
}

int tsr_ibv_query_pkey(struct ibv_context *context, uint8_t port, int index, uint16_t *pkey) {
  if (port != 1 || index < 0 || index >= (int)TESSERA_HCA_PKEYS) {
    errno = EINVAL;
    return -1;
  }
  *pkey = htons(tsr_of(context)->device.info.pkeys[index]);
  return 0;
}

int tsr_ibv_get_pkey_index(struct ibv_context *context, uint8_t port, uint16_t pkey) {
  uint16_t own;
  for (int i = 0; tsr_ibv_query_pkey(context, port, i, &own) == 0; i++)
    if (own == pkey) return i;
  return -1;
}
