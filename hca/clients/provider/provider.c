/* Tessera's HCA as a provider of the distribution's libibverbs.so.1, which loads it by the
 * version of its private interface: libtessera-rdmav34.so. The objects are those of Tessera's
 * libibverbs.so.1. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "api.h"
#include "command/command.h"
#include "hca_path.h"
#include "log.h"
#include "rdma_core.h"
#include "verbs_calls.h"

static const char NAME_PREFIX[] = "tessera_";

enum operation {
#define OP(name) OP_##name,
#include "operations.def"
#undef OP
  OPERATIONS,
  ROOM = 128 /* a library with more operations finds NULL there */
};

/* libibverbs creates channels itself, from a device file, which this device does not have. So no
 * channel is passed on. */
static struct ibv_cq *create_cq(struct ibv_context *context, int entries,
                                struct ibv_comp_channel *channel, int vector) {
  return tsr_ibv_create_cq(context, entries, NULL, channel, vector);
}

static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
                             int access) {
  return tsr_ibv_reg_mr_iova2(pd, addr, length, iova, (unsigned)access);
}

/* libibverbs reads the GIDs from sysfs, which lists only those in use. */
static int query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr) {
  const int error = tsr_ibv_query_port(context, port, attr);
  if (error == 0) attr->gid_tbl_len = TESSERA_HCA_GIDS;
  return error;
}

static void free_context(struct ibv_context *ibv) {
  struct tsr_context *context = tsr_of(ibv);
  if (context->page) munmap(context->page, TESSERA_HCA_PAGE_BYTES);
  if (context->doorbell_fd >= 0) close(context->doorbell_fd);
  if (context->socket >= 0) close(context->socket);
  verbs_uninit_context(&context->verbs); /* closes what libibverbs has opened */
  free(context);
}

static void *operations[ROOM] = {
    [OP_advise_mr] = tsr_advise_mr,
    [OP_alloc_mw] = tsr_alloc_mw,
    [OP_alloc_parent_domain] = tsr_alloc_parent_domain,
    [OP_alloc_pd] = tsr_ibv_alloc_pd,
    [OP_alloc_td] = tsr_alloc_td,
    [OP_attach_mcast] = tsr_ibv_attach_mcast,
    [OP_bind_mw] = tsr_bind_mw,
    [OP_create_ah] = tsr_ibv_create_ah,
    [OP_create_cq] = create_cq,
    [OP_create_cq_ex] = tsr_create_cq_ex,
    [OP_create_flow] = tsr_create_flow,
    [OP_create_qp] = tsr_ibv_create_qp,
    [OP_create_qp_ex] = tsr_create_qp_ex,
    [OP_create_rwq_ind_table] = tsr_create_rwq_ind_table,
    [OP_create_srq] = tsr_ibv_create_srq,
    [OP_create_srq_ex] = tsr_create_srq_ex,
    [OP_create_wq] = tsr_create_wq,
    [OP_dealloc_mw] = tsr_dealloc_mw,
    [OP_dealloc_pd] = tsr_ibv_dealloc_pd,
    [OP_dealloc_td] = tsr_dealloc_td,
    [OP_dereg_mr] = tsr_ibv_dereg_mr,
    [OP_destroy_ah] = tsr_ibv_destroy_ah,
    [OP_destroy_cq] = tsr_ibv_destroy_cq,
    [OP_destroy_flow] = tsr_destroy_flow,
    [OP_destroy_qp] = tsr_ibv_destroy_qp,
    [OP_destroy_rwq_ind_table] = tsr_destroy_rwq_ind_table,
    [OP_destroy_srq] = tsr_ibv_destroy_srq,
    [OP_destroy_wq] = tsr_destroy_wq,
    [OP_detach_mcast] = tsr_ibv_detach_mcast,
    [OP_free_context] = free_context,
    [OP_modify_qp] = tsr_ibv_modify_qp,
    [OP_modify_srq] = tsr_ibv_modify_srq,
    [OP_modify_wq] = tsr_modify_wq,
    [OP_poll_cq] = tsr_poll_cq,
    [OP_post_recv] = tsr_post_recv,
    [OP_post_send] = tsr_post_send,
    [OP_post_srq_recv] = tsr_post_srq_recv,
    [OP_query_device_ex] = tsr_query_device_ex,
    [OP_query_port] = query_port,
    [OP_query_qp] = tsr_ibv_query_qp,
    [OP_query_qp_data_in_order] = tsr_ibv_query_qp_data_in_order,
    [OP_query_rt_values] = tsr_query_rt_values,
    [OP_query_srq] = tsr_ibv_query_srq,
    [OP_reg_dmabuf_mr] = tsr_ibv_reg_dmabuf_mr,
    [OP_reg_mr] = reg_mr,
    [OP_req_notify_cq] = tsr_req_notify_cq,
    [OP_resize_cq] = tsr_ibv_resize_cq,
};

/* Compare the operations that libibverbs exposes publicly with those that it was given, to
 * detect a private order of operations that differs from operations.def. */
static bool has_our_order(const struct verbs_context *verbs) {
  const struct ibv_context_ops *ops = &verbs->context.ops;
  const struct shown {
    const void *is;
    enum operation as;
  } shown[] = {
      {verbs->advise_mr, OP_advise_mr},
      {ops->alloc_mw, OP_alloc_mw},
      {verbs->alloc_parent_domain, OP_alloc_parent_domain},
      {ops->compat_before[2], OP_alloc_pd},
      {verbs->alloc_td, OP_alloc_td},
      {ops->compat_after[2], OP_attach_mcast},
      {ops->bind_mw, OP_bind_mw},
      {ops->compat_after[0], OP_create_ah},
      {ops->compat_create_cq, OP_create_cq},
      {verbs->ibv_create_flow, OP_create_flow},
      {ops->compat_qp[0], OP_create_qp},
      {verbs->create_qp_ex, OP_create_qp_ex},
      {verbs->create_rwq_ind_table, OP_create_rwq_ind_table},
      {ops->compat_middle[3], OP_create_srq},
      {verbs->create_srq_ex, OP_create_srq_ex},
      {verbs->create_wq, OP_create_wq},
      {ops->dealloc_mw, OP_dealloc_mw},
      {ops->compat_before[3], OP_dealloc_pd},
      {verbs->dealloc_td, OP_dealloc_td},
      {ops->compat_before[6], OP_dereg_mr},
      {ops->compat_after[1], OP_destroy_ah},
      {ops->compat_middle[2], OP_destroy_cq},
      {verbs->ibv_destroy_flow, OP_destroy_flow},
      {ops->compat_qp[3], OP_destroy_qp},
      {verbs->destroy_rwq_ind_table, OP_destroy_rwq_ind_table},
      {ops->compat_middle[6], OP_destroy_srq},
      {verbs->destroy_wq, OP_destroy_wq},
      {ops->compat_after[3], OP_detach_mcast},
      {ops->compat_qp[2], OP_modify_qp},
      {ops->compat_middle[4], OP_modify_srq},
      {verbs->modify_wq, OP_modify_wq},
      {ops->poll_cq, OP_poll_cq},
      {ops->post_recv, OP_post_recv},
      {ops->post_send, OP_post_send},
      {ops->post_srq_recv, OP_post_srq_recv},
      {verbs->query_device_ex, OP_query_device_ex},
      {ops->compat_qp[1], OP_query_qp},
      {verbs->query_rt_values, OP_query_rt_values},
      {ops->compat_middle[5], OP_query_srq},
      {ops->compat_before[4], OP_reg_mr},
      {ops->req_notify_cq, OP_req_notify_cq},
      {ops->compat_middle[1], OP_resize_cq},
  };
  for (unsigned i = 0; i < sizeof shown / sizeof *shown; i++)
    if (shown[i].is != operations[shown[i].as]) return false;
  return true;
}

/* libibverbs writes some commands to its device file, /dev/null: make these writes fail. */
static int refuse_commands(int cmd_fd) {
  const int unwritable = open("/dev/null", O_RDONLY | O_CLOEXEC);
  const int placed = unwritable < 0 ? -1 : dup3(unwritable, cmd_fd, O_CLOEXEC);
  const int error = placed < 0 ? errno : 0;
  if (unwritable >= 0) close(unwritable);
  return error;
}

/* Create an event descriptor that is never readable: libibverbs expects kernel events there, and
 * hcad sends none. */
static int silent_events(struct ibv_context *ibv) {
  ibv->async_fd = eventfd(0, EFD_CLOEXEC);
  return ibv->async_fd < 0 ? errno : 0;
}

static int connect_context(struct tsr_context *context, int cmd_fd) {
  const char *path = tsr_hca_path();
  if (!path) return ENODEV;
  int fds[2];
  int error = tsr_hca_open(path, &context->device.info, &context->socket, fds);
  if (error != 0) return error;
  context->doorbell_fd = fds[1];
  context->page = tsr_map(fds[0], TESSERA_HCA_PAGE_BYTES);
  error = context->page ? refuse_commands(cmd_fd) : errno;
  return error ? error : silent_events(&context->verbs.context);
}

static struct verbs_context *alloc_context(struct ibv_device *device, int cmd_fd, void *data) {
  (void)data;
  struct tsr_context *context =
      _verbs_init_and_alloc_context(device, cmd_fd, sizeof *context, NULL, 0);
  if (!context) return NULL;
  context->doorbell_fd = context->socket = -1;
  pthread_mutex_init(&context->asking, NULL);
  pthread_mutex_init(&context->registering, NULL);
  context->verbs.context.num_comp_vectors = 1;
  verbs_set_ops(&context->verbs, operations);
  int error = 0;
  if (!has_our_order(&context->verbs)) {
    tsr_log("this libibverbs.so.1 has another private interface than rdma-core 39 to 56");
    error = ENOSYS;
  }
  if (error == 0) error = connect_context(context, cmd_fd);
  if (error == 0) return &context->verbs;
  free_context(&context->verbs.context);
  errno = error;
  return NULL;
}

static bool match_device(struct verbs_sysfs_dev *found) {
  return strncmp(found->ibdev_name, NAME_PREFIX, sizeof NAME_PREFIX - 1) == 0;
}

static struct verbs_device *alloc_device(struct verbs_sysfs_dev *found) {
  (void)found;
  return calloc(1, sizeof(struct verbs_device));
}

static void uninit_device(struct verbs_device *device) { free(device); }

static const struct verbs_device_ops DRIVER = {
    .name = "tessera",
    .match_min_abi_version = 1,
    .match_max_abi_version = 1,
    .match_device = match_device,
    .alloc_context = alloc_context,
    .alloc_device = alloc_device,
    .uninit_device = uninit_device,
};

__attribute__((constructor)) static void register_driver(void) { verbs_register_driver_34(&DRIVER); }
