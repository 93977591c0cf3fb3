#include "plan.h"

#include "compute.h"
#include "descriptors.h"
#include "objects.h"
#include "unsupported.h"
#include "values.h"

enum { OP_N = 0, OP_C = 2, ORDER_COLUMN = 0, ORDER_ROW = 1, POINTER_MODE_HOST = 0, POINTER_MODE_DEVICE = 1 };
/* cublasLtEpilogue_t; the bits can be combined */
enum { EPILOGUE_DEFAULT = 1, EPILOGUE_RELU = 2, EPILOGUE_BIAS = 4, EPILOGUE_GELU = 32 };

#define REFUSE(what)                                                                             \
  do {                                                                                           \
    static uint32_t said;                                                                        \
    tsr_unsupported("cublasLtMatmul with " what, "CUBLAS_STATUS_NOT_SUPPORTED", &said);          \
    return CUBLAS_STATUS_NOT_SUPPORTED;                                                          \
  } while (0)

struct layout {
  int64_t type, order, rows, columns, leading, batches, offset, batch_mode;
};

/* Read a layout; false if the handle is none, or its sizes do not fit together. */
static bool read_layout(cublasLtMatrixLayout_t handle, struct layout *layout) {
  const struct tsr_values *values = tsr_object_find(handle, TSR_LAYOUT);
  if (!values) return false;
  *layout = (struct layout){
      tsr_values_number(values, LAYOUT_TYPE, -1),       tsr_values_number(values, LAYOUT_ORDER, 0),
      tsr_values_number(values, LAYOUT_ROWS, 0),        tsr_values_number(values, LAYOUT_COLS, 0),
      tsr_values_number(values, LAYOUT_LD, 0),          tsr_values_number(values, LAYOUT_BATCH_COUNT, 1),
      tsr_values_number(values, LAYOUT_BATCH_OFFSET, 0), tsr_values_number(values, LAYOUT_BATCH_MODE, 0),
  };
  if (layout->rows < 0 || layout->columns < 0 || layout->batches < 0) return false;
  const bool is_by_row = layout->order == ORDER_ROW;
  const int64_t stored = is_by_row ? layout->columns : layout->rows;
  const int64_t vectors = is_by_row ? layout->rows : layout->columns;
  /* PyTorch describes a single column with the distance 0 to the next. */
  return layout->order > ORDER_ROW || vectors <= 1 || layout->leading >= stored;
}

static bool is_plain(const struct layout *layout) {
  return layout->order >= ORDER_COLUMN && layout->order <= ORDER_ROW && layout->batch_mode == 0;
}

static struct tsr_matrix matrix_of(const struct layout *layout, bool is_transposed) {
  const bool is_by_column = (layout->order == ORDER_COLUMN) != is_transposed;
  return (struct tsr_matrix){
      .row = is_by_column ? 1 : layout->leading,
      .column = is_by_column ? layout->leading : 1,
      .batch = layout->offset,
  };
}

/* `types` are those of A, B, C and D. */
bool tsr_plan_has_types(int compute, int scale, const int *types) {
  if (scale != tsr_scale_type_of(compute) || types[0] != types[1] || types[2] != types[3]) return false;
  return tsr_product_is_known((struct tsr_product_types){types[0], types[2], scale});
}

/* Whether one of these attributes of a matmul descriptor was set to something but 0. */
static bool has_any(const struct tsr_values *values, int first, int last) {
  for (int number = first; number <= last; ++number)
    if (tsr_values_number(values, number, 0) != 0) return true;
  return false;
}

/* Add what follows the product. */
static cublasStatus_t plan_epilogue(const struct tsr_values *values, struct tsr_plan *plan) {
  const int64_t epilogue = tsr_values_number(values, MATMUL_EPILOGUE, EPILOGUE_DEFAULT);
  if (epilogue == EPILOGUE_DEFAULT) return CUBLAS_STATUS_SUCCESS;
  const int64_t activation = epilogue & ~(int64_t)EPILOGUE_BIAS;
  if (activation != 0 && activation != EPILOGUE_RELU && activation != EPILOGUE_GELU)
    REFUSE("an epilogue other than bias, ReLU and GELU");
  if (activation == EPILOGUE_GELU && plan->types.scale == TSR_F64) REFUSE("GELU of doubles");
  if (activation == EPILOGUE_RELU) plan->product.flags |= TSR_RELU;
  if (activation == EPILOGUE_GELU) plan->product.flags |= TSR_GELU;
  if (!(epilogue & EPILOGUE_BIAS)) return CUBLAS_STATUS_SUCCESS;
  const int64_t type = tsr_values_number(values, MATMUL_BIAS_DATA_TYPE, -1);
  if (type >= 0 && type != plan->types.result) REFUSE("a bias of another type than D's");
  plan->product.flags |= TSR_BIAS;
  plan->product.bias = (uint64_t)tsr_values_number(values, MATMUL_BIAS_POINTER, 0);
  plan->product.bias_batch = tsr_values_number(values, MATMUL_BIAS_BATCH_STRIDE, 0);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t tsr_plan_make(cublasLtMatmulDesc_t operation, struct tsr_layouts layouts,
                             struct tsr_plan *plan) {
  const struct tsr_values *values = tsr_object_find(operation, TSR_MATMUL);
  struct layout a, b, c, d;
  if (!values || !read_layout(layouts.a, &a) || !read_layout(layouts.b, &b) ||
      !read_layout(layouts.c, &c) || !read_layout(layouts.d, &d))
    return CUBLAS_STATUS_INVALID_VALUE;
  const int64_t transa = tsr_values_number(values, MATMUL_TRANSA, OP_N);
  const int64_t transb = tsr_values_number(values, MATMUL_TRANSB, OP_N);
  if (transa < OP_N || transa > OP_C || transb < OP_N || transb > OP_C) return CUBLAS_STATUS_INVALID_VALUE;
  if (!is_plain(&a) || !is_plain(&b) || !is_plain(&c) || !is_plain(&d))
    REFUSE("an order other than by rows and by columns, or batches that are not at a stride");
  const int64_t mode = tsr_values_number(values, MATMUL_POINTER_MODE, POINTER_MODE_HOST);
  if (mode != POINTER_MODE_HOST && mode != POINTER_MODE_DEVICE) REFUSE("a vector of alphas");
  if (has_any(values, MATMUL_TRANSC, MATMUL_FILL_MODE)) REFUSE("a transposed C, or a triangular D");
  if (has_any(values, MATMUL_A_SCALE_POINTER, MATMUL_AMAX_D_POINTER) ||
      has_any(values, MATMUL_D_OUT_SCALE_POINTER, MATMUL_D_OUT_SCALE_POINTER))
    REFUSE("scales of A, B, C or D, or a maximum of D");
  if (has_any(values, MATMUL_ATOMIC_SYNC_FIRST, MATMUL_ATOMIC_SYNC_LAST)) REFUSE("counters of chunks");
  const int types[] = {(int)a.type, (int)b.type, (int)c.type, (int)d.type};
  const int scale = (int)tsr_values_number(values, MATMUL_SCALE_TYPE, -1);
  if (!tsr_plan_has_types((int)tsr_values_number(values, MATMUL_COMPUTE_TYPE, -1), scale, types))
    REFUSE("types of matrices, scales and sums that are not all float, all double, or halves (f16, bf16)"
           " with sums in single precision");

  const int64_t k = transa == OP_N ? a.columns : a.rows;
  if ((transa == OP_N ? a.rows : a.columns) != d.rows || (transb == OP_N ? b.rows : b.columns) != k ||
      (transb == OP_N ? b.columns : b.rows) != d.columns || c.rows != d.rows || c.columns != d.columns ||
      a.batches != d.batches || b.batches != d.batches || c.batches != d.batches)
    return CUBLAS_STATUS_INVALID_VALUE;
  if (d.rows > INT32_MAX || d.columns > INT32_MAX || k > INT32_MAX || d.batches > INT32_MAX)
    REFUSE("a matrix of more than 2^31 - 1 rows or columns");
  *plan = (struct tsr_plan){
      .product = {.a = matrix_of(&a, transa != OP_N), .b = matrix_of(&b, transb != OP_N),
                  .c = matrix_of(&c, false), .d = matrix_of(&d, false), .m = (uint32_t)d.rows,
                  .n = (uint32_t)d.columns, .k = (uint32_t)k, .batches = (uint32_t)d.batches},
      .types = {types[0], types[2], scale},
      .has_device_scales = mode == POINTER_MODE_DEVICE,
  };
  return plan_epilogue(values, plan);
}
