// Common to all programs. A tensor is passed as a buffer and the index of its first element:
//   __kernel void f(TENSOR_IN(S, x), TENSOR_OUT(S, y), int n) { TENSOR(x); TENSOR(y); ... }
// S is the storage type of real numbers, `float` or `half`; arithmetic is in float. LOAD and STORE
// convert one element at a pointer, LOAD8 and STORE8 eight of them. (On processors, `vload8` calls a
// function; a vector read through a pointer is one instruction.)

#ifndef S
#define S float
#endif

#define TENSOR_IN(T, name) __global const T *restrict name##_memory, const long name##_first
#define TENSOR_OUT(T, name) __global T *restrict name##_memory, const long name##_first
#define TENSOR_READ(T, name) __global const T *restrict name = name##_memory + name##_first
#define TENSOR_WRITE(T, name) __global T *restrict name = name##_memory + name##_first

// VECTOR(float, 8) is float8; also in names of functions.
#define PASTE(a, b) a##b
#define VECTOR(T, n) PASTE(T, n)

typedef float8 __attribute__((aligned(4))) packed_float8;
typedef int8 __attribute__((aligned(4))) packed_int8;

#if defined(S_HALF)
#define LOAD(p) vload_half(0, p)
#define STORE(v, p) vstore_half_rte(v, 0, p)
#define LOAD8(p) vload_half8(0, p)
#define STORE8(v, p) vstore_half8_rte(v, 0, p)
#else
#define LOAD(p) (*(p))
#define STORE(v, p) (*(p) = (v))
#define LOAD8(p) (*(__global const packed_float8 *)(p))
#define STORE8(v, p) (*(__global packed_float8 *)(p) = (v))
#endif

// tanh to 4e-7, also of small numbers; drivers for processors take longer. It is v times a quotient
// of polynomials of v * v, fitted to small relative errors up to 9, where it is nearly 1.
#define TANH(V) \
  static V tanh_##V(V v) { \
    v = select(v, (V)(9.0f), v > (V)(9.0f)); \
    v = select(v, (V)(-9.0f), v < (V)(-9.0f)); \
    const V x = v * v; \
    const V above = \
        (((1.335584260e-8f * x + 2.061000871e-5f) * x + 3.495647422e-3f) * x + 0.1338107649f) * x + \
        0.9999999795f; \
    const V below = \
        (((7.777063903e-7f * x + 3.285729725e-4f) * x + 2.587721069e-2f) * x + 0.4671439212f) * x + \
        1.0f; \
    v = v * above / below; \
    return select(select(v, (V)(1.0f), v > (V)(1.0f)), (V)(-1.0f), v < (V)(-1.0f)); \
  }
TANH(float)
TANH(float8)
