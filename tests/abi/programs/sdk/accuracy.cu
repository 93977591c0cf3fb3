// Mathematical functions, against the C library's in long double, in units in the last place of the
// result. The bounds are those of CUDA's documentation. Zeros, infinities, NaN and the least and
// largest numbers follow C's Annex F, where the C library has the function. Arguments select functions
// by name.
#include <math.h>

#include <cstring>
#include <limits>

#include "check.h"

namespace {
typedef long double Real;
const int COUNT = 512;

template <class F, class T>
__global__ void evaluate(F f, const T* a, const T* b, T* out) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = f(a[i], b[i]);
}

double uniform() { return rand() / (double)RAND_MAX; }
struct Range {
  double low, high;
  bool logarithmic;
};
Range from(double low, double high) { return {low, high, false}; }
/* Both signs, all magnitudes. */
Range sizes(double low, double high) { return {low, high, true}; }
template <class T>
T draw(Range r) {
  if (!r.logarithmic) return (T)(r.low + uniform() * (r.high - r.low));
  const double v = exp(log(fabs(r.low)) + uniform() * (log(r.high) - log(fabs(r.low))));
  return (T)(r.low < 0 && rand() & 1 ? -v : v);
}
template <class T>
Real spacing(Real v) {
  int exponent;
  frexpl(v, &exponent);
  const int digits = sizeof(T) == 4 ? 24 : 53, least = sizeof(T) == 4 ? -148 : -1073;
  return ldexpl(1, (exponent - digits > least ? exponent - digits : least));
}
/* Every pair of the values with special cases. */
template <class T>
T special(int i) {
  typedef std::numeric_limits<T> Limits;
  const T positive[] = {0, Limits::infinity(), Limits::quiet_NaN(), Limits::denorm_min(), Limits::max(), 1, 2, 0.5};
  return i & 1 ? -positive[i / 2 % 8] : positive[i / 2 % 8];
}
const int SPECIAL = 16 * 16;
/* Whether zeros, infinities and NaN are those of the reference, with their signs. */
template <class T>
bool is_same_class(T got, Real wanted) {
  const T want = (T)wanted;
  if (std::isnan(want)) return std::isnan(got);
  return std::signbit(got) == std::signbit(want) && std::isinf(got) == std::isinf(want) && (got == 0) == (want == 0);
}
template <class T, class F>
int measure(
    const char* name, F device, Real (*host)(Real, Real), bool has_special, double bound, Range a, Range b
) {
  std::vector<T> x(COUNT), y(COUNT);
  for (int i = 0; i < COUNT; i++) x[i] = draw<T>(a), y[i] = draw<T>(b);
  if (has_special)
    for (int i = 0; i < SPECIAL; i++) x[i] = special<T>(i), y[i] = special<T>(i / 16);
  Device<T> dx(x), dy(y), dz(COUNT);
  evaluate<<<4, COUNT / 4>>>(device, (const T*)dx, (const T*)dy, (T*)dz);
  const auto z = dz.read();
  double worst = 0;
  int at = 0;
  for (int i = 0; i < COUNT; i++) {
    const Real want = host(x[i], y[i]);
    if (has_special && i < SPECIAL && !is_same_class(z[i], want)) {
      printf("  %s(%.9g, %.9g) is %.9g\n", name, (double)x[i], (double)y[i], (double)z[i]);
      return 1;
    }
    if (!std::isfinite((T)want)) continue;
    const double error = (double)(fabsl(want - z[i]) / spacing<T>(want));
    if (!(error <= worst)) worst = error, at = i;
  }
  if (worst <= bound) return 0;
  printf("  %s(%.17g, %.17g) = %.17g is wrong by %.3g ulp\n", name, (double)x[at], (double)y[at],
         (double)z[at], worst);
  return 1;
}

Real erfinv_host(Real a, Real) { /* Newton's method from the double's neighbourhood */
  Real x = a;
  for (int i = 0; i < 200; i++) {
    const Real near_one = (1 - fabsl(a)) - erfcl(fabsl(x));
    const Real residual = fabsl(a) > 0.5L ? (a > 0 ? near_one : -near_one) : erfl(x) - a;
    const Real step = residual / (2 / sqrtl(M_PIl) * expl(-x * x));
    x -= fabsl(step) > 0.5L ? copysignl(0.5L, step) : step;
  }
  return x;
}

/* Whether the reference is right at the values with special cases, too. */
bool has_special(const char* function) {
  for (const char* other : {"erfcx", "erfinv", "sinpi", "cospi"})
    if (!strcmp(function, other)) return false;
  return true;
}

#define ONE(function, reference, single, twice, ...)                                      \
  if (is_selected(#function))                                                             \
    bad += measure<float>(                                                                \
        #function "f", [] __device__(float a, float) { return function##f(a); },          \
        [](Real a, Real) -> Real { return reference; },                                   \
        has_special(#function), single, __VA_ARGS__, from(0, 1));                         \
  if (is_selected(#function))                                                             \
    bad += measure<double>(                                                               \
        #function, [] __device__(double a, double) { return function(a); },               \
        [](Real a, Real) -> Real { return reference; },                                   \
        has_special(#function), twice, __VA_ARGS__, from(0, 1));
#define TWO(function, reference, single, twice, first, second)                        \
  if (is_selected(#function))                                                         \
    bad += measure<float>(                                                            \
        #function "f", [] __device__(float a, float b) { return function##f(a, b); }, \
        [](Real a, Real b) -> Real { return reference; }, true, single, first, second); \
  if (is_selected(#function))                                                         \
    bad += measure<double>(                                                           \
        #function, [] __device__(double a, double b) { return function(a, b); },      \
        [](Real a, Real b) -> Real { return reference; }, true, twice, first, second);
}  // namespace

int check_accuracy(int count, char** names) {
  const auto is_selected = [=](const char* name) {
    for (int i = 0; i < count; i++)
      if (!strcmp(names[i], name)) return true;
    return count == 0;
  };
  int bad = 0;
  ONE(sin, sinl(a), 2, 2, sizes(-1e-6, 1e18))
  ONE(cos, cosl(a), 2, 2, sizes(-1e-6, 1e18))
  ONE(tan, tanl(a), 4, 2, sizes(-1e-6, 1e18))
  ONE(asin, asinl(a), 2, 2, from(-1, 1))
  ONE(acos, acosl(a), 2, 2, from(-1, 1))
  ONE(atan, atanl(a), 2, 2, sizes(-1e-6, 1e6))
  ONE(sinh, sinhl(a), 3, 2, sizes(-1e-6, 80))
  ONE(cosh, coshl(a), 2, 2, sizes(-1e-6, 80))
  ONE(tanh, tanhl(a), 2, 2, sizes(-1e-6, 30))
  ONE(asinh, asinhl(a), 3, 3, sizes(-1e-6, 1e20))
  ONE(acosh, acoshl(a), 4, 3, sizes(1, 1e20))
  ONE(atanh, atanhl(a), 3, 2, from(-1, 1))
  ONE(exp, expl(a), 2, 1, from(-86, 88))
  ONE(exp2, exp2l(a), 2, 1, from(-148, 127))
  ONE(exp10, exp10l(a), 2, 1, from(-37, 38))
  ONE(expm1, expm1l(a), 1, 1, sizes(-1e-6, 80))
  ONE(log, logl(a), 1, 1, sizes(1e-37, 1e37))
  ONE(log2, log2l(a), 1, 1, from(0.5, 2))
  ONE(log10, log10l(a), 2, 1, sizes(1e-37, 1e37))
  ONE(log1p, log1pl(a), 1, 1, from(-0.99, 3))
  ONE(cbrt, cbrtl(a), 1, 1, sizes(-1e-37, 1e37))
  ONE(rcbrt, 1 / cbrtl(a), 1, 1, sizes(-1e-37, 1e37))
  ONE(rsqrt, 1 / sqrtl(a), 2, 1, sizes(1e-37, 1e37))
  ONE(erf, erfl(a), 2, 2, sizes(-1e-6, 5))
  ONE(erfc, erfcl(a), 4, 5, from(-4, 9))
  ONE(erfcx, expl(a * a) * erfcl(a), 4, 4, from(-4, 9))
  ONE(erfinv, erfinv_host(a, 0), 2, 5, from(-1, 1))
  ONE(normcdf, erfcl(-a * sqrtl(0.5L)) / 2, 5, 5, from(-12, 5))
  ONE(tgamma, tgammal(a), 5, 10, from(0.1, 33))
  ONE(lgamma, lgammal(a), 6, 4, from(0.1, 100))
  ONE(sinpi, sinl(M_PIl * a), 1, 2, from(-0.9, 0.9))
  ONE(cospi, cosl(M_PIl * a), 1, 2, from(-0.45, 0.45))
  TWO(pow, powl(a, b), 4, 2, sizes(1e-3, 1e3), from(-12, 12))
  TWO(atan2, atan2l(a, b), 3, 2, sizes(-1e-6, 1e6), sizes(-1e-6, 1e6))
  TWO(hypot, hypotl(a, b), 3, 2, sizes(1e-30, 1e30), sizes(1e-30, 1e30))
  TWO(fmod, fmodl(a, b), 0, 0, sizes(-1e-3, 1e6), sizes(-1e-3, 1e3))
  TWO(remainder, remainderl(a, b), 0, 0, sizes(-1e-3, 1e6), sizes(-1e-3, 1e3))
  return report("accuracy", bad);
}
