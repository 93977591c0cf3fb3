/* Writes the PTX of a matrix product: one thread per element of the result, which sums in the
   order of k with fused multiply-add, in double precision for doubles and single otherwise. */
#include "product_text.h"

#include <stdio.h>

#include "text.h"

#define put tsr_text_put
#define AT(field) offsetof(struct tsr_product, field)

static int shift_of(int type) { return type == TSR_F64 ? 3 : type == TSR_F32 ? 2 : 1; }

/* Read an element at an address and convert it to the type of the sum. */
static void put_load(struct tsr_text *text, int type, bool is_double, const char *to, const char *from) {
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

static void put_store(struct tsr_text *text, int type, bool is_double) {
  const char *single = is_double ? "%single" : "%sum";
  if (type == TSR_F64) put(text, "st.global.f64 [%%pd], %%sum;\n");
  if (type != TSR_F64 && is_double) put(text, "cvt.rn.f32.f64 %%single, %%sum;\n");
  if (type == TSR_F32) put(text, "st.global.f32 [%%pd], %s;\n", single);
  if (type == TSR_F16) put(text, "cvt.rn.f16.f32 %%half, %s;\nst.global.b16 [%%pd], %%half;\n", single);
  if (type == TSR_BF16) put(text, "cvt.rn.bf16.f32 %%half, %s;\nst.global.b16 [%%pd], %%half;\n", single);
}

static void put_scale(struct tsr_text *text, const char *name, size_t at, int type, bool is_double) {
  put(text, "ld.param.f64 %%wide, [args+%zu];\n%s %%%s, %%wide;\n", at + offsetof(struct tsr_scale, value),
      is_double ? "mov.f64" : "cvt.rn.f32.f64", name);
  put(text, "ld.param.u64 %%at, [args+%zu];\nsetp.eq.u64 %%p, %%at, 0;\n@%%p bra have_%s;\n",
      at + offsetof(struct tsr_scale, address), name);
  char to[8];
  snprintf(to, sizeof to, "%%%s", name);
  put_load(text, type, is_double, to, "%at");
  put(text, "have_%s:\n", name);
}

/* Compute %p<name>, the address of the element in this row and column of this batch's matrix. */
static void put_address(struct tsr_text *text, char name, size_t at, bool has_row, bool has_column,
                        int shift) {
  put(text, "ld.param.u64 %%t, [args+%zu];\nmul.lo.u64 %%p%c, %%t, %%wz;\n",
      at + offsetof(struct tsr_matrix, batch), name);
  if (has_row)
    put(text, "ld.param.u64 %%t, [args+%zu];\nmad.lo.u64 %%p%c, %%t, %%wi, %%p%c;\n",
        at + offsetof(struct tsr_matrix, row), name, name);
  if (has_column)
    put(text, "ld.param.u64 %%t, [args+%zu];\nmad.lo.u64 %%p%c, %%t, %%wj, %%p%c;\n",
        at + offsetof(struct tsr_matrix, column), name, name);
  put(text, "shl.b64 %%p%c, %%p%c, %d;\nld.param.u64 %%t, [args+%zu];\n", name, name, shift,
      at + offsetof(struct tsr_matrix, address));
  put(text, "setp.ne.and.u64 %%p, %%t, 0, %%arrays;\nmad.lo.u64 %%at, %%wz, 8, %%t;\n"
            "@%%p ld.global.u64 %%t, [%%at];\nadd.u64 %%p%c, %%p%c, %%t;\n", name, name);
}

/* Compute %d<name>, the distance in bytes between a factor's elements of successive k. */
static void put_distance(struct tsr_text *text, char name, size_t at, int shift) {
  put(text, "ld.param.u64 %%d%c, [args+%zu];\nshl.b64 %%d%c, %%d%c, %d;\n", name, at, name, name, shift);
}

/* Branch to a label unless a flag is set. */
static void put_unless(struct tsr_text *text, int flag, const char *label) {
  put(text, "and.b32 %%x, %%flags, %d;\nsetp.eq.u32 %%p, %%x, 0;\n@%%p bra %s;\n", flag, label);
}

static void put_place(struct tsr_text *text) {
  put(text,
      "mov.u32 %%i, %%ctaid.x;\nmov.u32 %%x, %%ntid.x;\nmov.u32 %%z, %%tid.x;\n"
      "mad.lo.u32 %%i, %%i, %%x, %%z;\n"
      "mov.u32 %%j, %%ctaid.y;\nmov.u32 %%x, %%ntid.y;\nmov.u32 %%z, %%tid.y;\n"
      "mad.lo.u32 %%j, %%j, %%x, %%z;\nmov.u32 %%z, %%ctaid.z;\n");
  put(text, "ld.param.u32 %%x, [args+%zu];\nadd.u32 %%j, %%j, %%x;\n", AT(first_column));
  put(text,
      "ld.param.u32 %%x, [args+%zu];\nsetp.ge.u32 %%p, %%i, %%x;\n@%%p bra end;\n"
      "ld.param.u32 %%x, [args+%zu];\nsetp.ge.u32 %%p, %%j, %%x;\n@%%p bra end;\n", AT(m), AT(n));
  put(text,
      "ld.param.u32 %%k, [args+%zu];\nld.param.u32 %%flags, [args+%zu];\nand.b32 %%x, %%flags, %d;\n"
      "setp.ne.u32 %%arrays, %%x, 0;\ncvt.u64.u32 %%wi, %%i;\ncvt.u64.u32 %%wj, %%j;\n"
      "cvt.u64.u32 %%wz, %%z;\n", AT(k), AT(flags), TSR_ARRAYS);
}

/* The sum, scaled by alpha. Without elements it is 0 whatever alpha is, and with an alpha of 0
 * the factors are not read. */
static void put_sum(struct tsr_text *text, int factors, bool is_double) {
  const char *kind = is_double ? "f64" : "f32";
  put(text, "cvt.rn.%s.u32 %%sum, 0;\nsetp.eq.u32 %%p, %%k, 0;\n@%%p bra scaled;\n", kind);
  put_unless(text, TSR_ALWAYS, "may_be_zero");
  put(text, "bra factors;\nmay_be_zero:\nsetp.eq.%s %%p, %%alpha, %%sum;\n@%%p bra scaled;\nfactors:\n", kind);
  put_unless(text, TSR_UNIT_B, "next");
  put_load(text, factors, is_double, "%sum", "%pa");
  put(text, "cvt.rn.%s.u32 %%u, 1;\nsetp.eq.%s %%p, %%alpha, %%u;\n@%%p bra scaled;\nbra summed;\n", kind, kind);
  put(text, "next:\n");
  put_load(text, factors, is_double, "%u", "%pa");
  put_load(text, factors, is_double, "%v", "%pb");
  put(text,
      "fma.rn.%s %%sum, %%u, %%v, %%sum;\nadd.u64 %%pa, %%pa, %%da;\nadd.u64 %%pb, %%pb, %%db;\n"
      "sub.u32 %%k, %%k, 1;\nsetp.ne.u32 %%p, %%k, 0;\n@%%p bra next;\nsummed:\n"
      "mul.rn.%s %%sum, %%sum, %%alpha;\nscaled:\n", kind, kind);
}

/* What follows the product: a bias, and activations. */
static void put_epilogue(struct tsr_text *text, int result, bool is_double) {
  const char *kind = is_double ? "f64" : "f32";
  put_unless(text, TSR_BIAS, "positive");
  put(text, "ld.param.u64 %%t, [args+%zu];\nmad.lo.u64 %%at, %%t, %%wz, %%wi;\nshl.b64 %%at, %%at, %d;\n"
            "ld.param.u64 %%t, [args+%zu];\nadd.u64 %%at, %%at, %%t;\n", AT(bias_batch), shift_of(result),
      AT(bias));
  put_load(text, result, is_double, "%u", "%at");
  put(text, "add.rn.%s %%sum, %%sum, %%u;\npositive:\n", kind);
  put_unless(text, TSR_RELU, "gelu");
  put(text, "cvt.rn.%s.u32 %%u, 0;\nsetp.lt.%s %%p, %%sum, %%u;\n@%%p mov.%s %%sum, %%u;\ngelu:\n", kind, kind,
      kind);
  if (is_double) return;
  put_unless(text, TSR_GELU, "store");
  /* x / (1 + exp(-2 sqrt(2 / pi) (x + 0.044715 x^3))) */
  put(text,
      "mul.rn.f32 %%u, %%sum, %%sum;\nfma.rn.f32 %%u, %%u, 0f3D372713, 0f3F800000;\n"
      "mul.rn.f32 %%u, %%u, %%sum;\nmul.rn.f32 %%u, %%u, 0fC0135761;\nex2.approx.f32 %%u, %%u;\n"
      "add.rn.f32 %%u, %%u, 0f3F800000;\ndiv.rn.f32 %%sum, %%sum, %%u;\nstore:\n");
}

bool tsr_product_write(char *bytes, size_t size, struct tsr_product_types types) {
  const bool is_double = types.scale == TSR_F64;
  const char *kind = is_double ? "f64" : "f32";
  struct tsr_text text = {bytes, size, 0};
  put(&text,
      ".version 7.0\n.target sm_80\n.address_size 64\n"
      ".visible .entry product(.param .align 8 .b8 args[%zu])\n{\n", sizeof(struct tsr_product));
  put(&text,
      ".reg .pred %%p, %%arrays; .reg .b16 %%half; .reg .b32 %%bits, %%i, %%j, %%z, %%k, %%x, %%flags;\n"
      ".reg .f32 %%single; .reg .f64 %%wide; .reg .%s %%sum, %%u, %%v, %%alpha, %%beta;\n"
      ".reg .b64 %%pa, %%pb, %%pc, %%pd, %%da, %%db, %%t, %%at, %%wi, %%wj, %%wz;\n", kind);
  put_place(&text);
  const int factor = shift_of(types.factors), result = shift_of(types.result);
  put_address(&text, 'a', AT(a), true, false, factor);
  put_address(&text, 'b', AT(b), false, true, factor);
  put_address(&text, 'c', AT(c), true, true, result);
  put_address(&text, 'd', AT(d), true, true, result);
  put_distance(&text, 'a', AT(a.column), factor);
  put_distance(&text, 'b', AT(b.row), factor);
  put_scale(&text, "alpha", AT(alpha), types.scale, is_double);
  put_scale(&text, "beta", AT(beta), types.scale, is_double);
  put_sum(&text, types.factors, is_double);
  put(&text, "cvt.rn.%s.u32 %%u, 0;\nsetp.eq.%s %%p, %%beta, %%u;\n@%%p bra added;\n", kind, kind);
  put_load(&text, types.result, is_double, "%u", "%pc");
  put(&text, "fma.rn.%s %%sum, %%beta, %%u, %%sum;\nadded:\n", kind);
  put_epilogue(&text, types.result, is_double);
  put_store(&text, types.result, is_double);
  put(&text, "end:\nret;\n}\n");
  return text.used < size;
}
