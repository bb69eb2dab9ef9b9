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
