/* Writes the PTX of a matrix product: one thread per element of the result, which sums in the
   order of k with fused multiply-add, in double precision for doubles and single otherwise. */
#include "gemm_text.h"

#include <stdarg.h>
#include <stdio.h>

#include "gemm.h"

struct text {
  char *bytes;
  size_t size, used;
};

__attribute__((format(printf, 2, 3))) static void put(struct text *text, const char *format, ...) {
  va_list values;
  va_start(values, format);
  const size_t left = text->used < text->size ? text->size - text->used : 0;
  const int wanted = vsnprintf(left ? text->bytes + text->used : NULL, left, format, values);
  va_end(values);
  text->used += wanted > 0 ? (size_t)wanted : 0;
}

static int shift_of(int type) { return type == TSR_F64 ? 3 : type == TSR_F32 ? 2 : 1; }

/* Read an element at an address and convert it to the type of the sum. */
static void put_load(struct text *text, int type, bool is_double, const char *to, const char *from) {
  if (type == TSR_F64) {
    put(text, "ld.global.f64 %s, [%s];\n", to, from);
    return;
  }
  const char *single = is_double ? "%single" : to;
  if (type == TSR_F32) put(text, "ld.global.f32 %s, [%s];\n", single, from);
  if (type == TSR_F16) put(text, "ld.global.b16 %%half, [%s];\ncvt.f32.f16 %s, %%half;\n", from, single);
  if (type == TSR_BF16)
    put(text, "ld.global.u16 %%half, [%s];\ncvt.u32.u16 %%bits, %%half;\nshl.b32 %%bits, %%bits, 16;\n"
              "mov.b32 %s, %%bits;\n", from, single);
  if (is_double) put(text, "cvt.f64.f32 %s, %%single;\n", to);
}

static void put_store(struct text *text, int type) {
  if (type == TSR_F64) put(text, "st.global.f64 [%%pc], %%sum;\n");
  if (type == TSR_F32) put(text, "st.global.f32 [%%pc], %%sum;\n");
  if (type == TSR_F16) put(text, "cvt.rn.f16.f32 %%half, %%sum;\nst.global.b16 [%%pc], %%half;\n");
  if (type == TSR_BF16) put(text, "cvt.rn.bf16.f32 %%half, %%sum;\nst.global.b16 [%%pc], %%half;\n");
}

/* A scale is a value in the parameters, or in memory if its address is not 0. */
static void put_scale(struct text *text, const char *name, int type, bool is_double) {
  const char *kind = is_double ? "f64" : "f32";
  put(text, "ld.param.%s %%%s, [%s_value];\nld.param.u64 %%at, [%s_address];\n", kind, name, name, name);
  put(text, "setp.eq.u64 %%p, %%at, 0;\n@%%p bra have_%s;\n", name);
  char to[16];
  snprintf(to, sizeof to, "%%%s", name);
  put_load(text, type, is_double, to, "%at");
  put(text, "have_%s:\n", name);
}

bool tsr_gemm_write(char *bytes, size_t size, int factors, int result, int scale) {
  const bool is_double = factors == TSR_F64;
  const char *kind = is_double ? "f64" : "f32";
  struct text text = {bytes, size, 0};
  put(&text,
      ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry gemm(\n"
      ".param .u64 a, .param .u64 b, .param .u64 c, .param .u32 m, .param .u32 n, .param .u32 k,\n"
      ".param .u64 a_row, .param .u64 a_column, .param .u64 a_batch,\n"
      ".param .u64 b_row, .param .u64 b_column, .param .u64 b_batch,\n"
      ".param .u64 c_column, .param .u64 c_batch,\n"
      ".param .u64 alpha_address, .param .u64 beta_address,\n"
      ".param .%s alpha_value, .param .%s beta_value)\n{\n", kind, kind);
  put(&text,
      ".reg .pred %%p; .reg .b16 %%half; .reg .b32 %%bits, %%i, %%j, %%z, %%m, %%n, %%k, %%x;\n"
      ".reg .f32 %%single; .reg .%s %%sum, %%u, %%v, %%alpha, %%beta;\n"
      ".reg .b64 %%pa, %%pb, %%pc, %%da, %%db, %%t, %%at, %%wi, %%wj, %%wz;\n", kind);
  put(&text,
      "mov.u32 %%i, %%ctaid.x;\nmov.u32 %%x, %%ntid.x;\nmov.u32 %%z, %%tid.x;\n"
      "mad.lo.u32 %%i, %%i, %%x, %%z;\n"
      "mov.u32 %%j, %%ctaid.y;\nmov.u32 %%x, %%ntid.y;\nmov.u32 %%z, %%tid.y;\n"
      "mad.lo.u32 %%j, %%j, %%x, %%z;\nmov.u32 %%z, %%ctaid.z;\n"
      "ld.param.u32 %%m, [m];\nld.param.u32 %%n, [n];\nld.param.u32 %%k, [k];\n"
      "setp.ge.u32 %%p, %%i, %%m;\n@%%p bra end;\nsetp.ge.u32 %%p, %%j, %%n;\n@%%p bra end;\n"
      "cvt.u64.u32 %%wi, %%i;\ncvt.u64.u32 %%wj, %%j;\ncvt.u64.u32 %%wz, %%z;\n");
  static const char *const operands[][3] = {{"a", "row", "%wi"}, {"b", "column", "%wj"}};
  for (int one = 0; one < 2; ++one) {
    const char *name = operands[one][0];
    put(&text, "ld.param.u64 %%t, [%s_%s];\nmul.lo.u64 %%p%s, %%t, %s;\n", name, operands[one][1], name,
        operands[one][2]);
    put(&text, "ld.param.u64 %%t, [%s_batch];\nmad.lo.u64 %%p%s, %%t, %%wz, %%p%s;\n", name, name, name);
    put(&text, "shl.b64 %%p%s, %%p%s, %d;\nld.param.u64 %%t, [%s];\nadd.u64 %%p%s, %%p%s, %%t;\n", name,
        name, shift_of(factors), name, name, name);
    put(&text, "ld.param.u64 %%d%s, [%s_%s];\nshl.b64 %%d%s, %%d%s, %d;\n", name, name,
        one == 0 ? "column" : "row", name, name, shift_of(factors));
  }
  put(&text,
      "ld.param.u64 %%t, [c_column];\nmad.lo.u64 %%pc, %%t, %%wj, %%wi;\n"
      "ld.param.u64 %%t, [c_batch];\nmad.lo.u64 %%pc, %%t, %%wz, %%pc;\n"
      "shl.b64 %%pc, %%pc, %d;\nld.param.u64 %%t, [c];\nadd.u64 %%pc, %%pc, %%t;\n", shift_of(result));
  put_scale(&text, "alpha", scale, is_double);
  put_scale(&text, "beta", scale, is_double);
  const char *zero = is_double ? "0d0000000000000000" : "0f00000000";
  put(&text, "mov.%s %%sum, %s;\nsetp.eq.%s %%p, %%alpha, %s;\n@%%p bra scaled;\n", kind, zero, kind, zero);
  put(&text, "setp.eq.u32 %%p, %%k, 0;\n@%%p bra scaled;\n"); /* so that no alpha multiplies 0 */
  put(&text, "next:\nsetp.eq.u32 %%p, %%k, 0;\n@%%p bra summed;\n");
  put_load(&text, factors, is_double, "%u", "%pa");
  put_load(&text, factors, is_double, "%v", "%pb");
  put(&text,
      "fma.rn.%s %%sum, %%u, %%v, %%sum;\nadd.u64 %%pa, %%pa, %%da;\nadd.u64 %%pb, %%pb, %%db;\n"
      "sub.u32 %%k, %%k, 1;\nbra next;\nsummed:\nmul.rn.%s %%sum, %%sum, %%alpha;\nscaled:\n"
      "setp.eq.%s %%p, %%beta, %s;\n@%%p bra store;\n", kind, kind, kind, zero);
  put_load(&text, result, is_double, "%u", "%pc");
  put(&text, "fma.rn.%s %%sum, %%beta, %%u, %%sum;\nstore:\n", kind);
  put_store(&text, result);
  put(&text, "end:\nret;\n}\n");
  return text.used < size;
}
