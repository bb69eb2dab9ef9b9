// Elementwise functions of operands of any types, which broadcast; the result may pass stages.
//
// The result is in rows of `inner` elements, in which operands advance by 0 or 1. `axes` holds for
// each axis outside rows, the last one first, its size and the strides of the operands, then the
// strides within rows. V is the type of `v`; FORM computes it of the elements a0, a1, ... The macros
// of the operands are written by `_broadcast.py`.

typedef char8 __attribute__((aligned(1))) packed_char8;
typedef uchar8 __attribute__((aligned(1))) packed_uchar8;
typedef short8 __attribute__((aligned(2))) packed_short8;
typedef ushort8 __attribute__((aligned(2))) packed_ushort8;
typedef uint8 __attribute__((aligned(4))) packed_uint8;

#define GET_half(p) vload_half(0, p)
#define GET8_half(p) vload_half8(0, p)
#define GET_plain(p) (*(p))
#define GET8_float(p) (*(__global const packed_float8 *)(p))
#define GET8_int(p) convert_float8(*(__global const packed_int8 *)(p))
#define GET8_uint(p) convert_float8(*(__global const packed_uint8 *)(p))
#define GET8_short(p) convert_float8(*(__global const packed_short8 *)(p))
#define GET8_ushort(p) convert_float8(*(__global const packed_ushort8 *)(p))
#define GET8_char(p) convert_float8(*(__global const packed_char8 *)(p))
#define GET8_uchar(p) convert_float8(*(__global const packed_uchar8 *)(p))

__kernel void broadcast(OPERAND_PARAMETERS, TENSOR_OUT(R, y), TENSOR_IN(int, axes), int rank,
                        int inner, int rows, int channels STAGE_PARAMETERS) {
  OPERAND_READS
  TENSOR_WRITE(R, y);
  TENSOR_READ(int, axes);
  STAGE_OPERANDS
  const int parts = (inner + RUN - 1) / RUN;
  const int item = get_global_id(0);
  if (item >= rows * parts) return;
  int row = item / parts;
  const int inside = item % parts * RUN;
  const int length = min(RUN, inner - inside);
  const int first = row * inner + inside;
  OPERAND_STARTS
  for (int axis = 0; axis < rank; axis++) {
    __global const int *strides = axes + axis * (1 + OPERANDS);
    const int index = row % strides[0];
    row /= strides[0];
    OPERAND_STEPS(index, strides + 1)
  }
  OPERAND_STRIDES(axes + rank * (1 + OPERANDS), inside)
  int i = 0, channel = first % channels;
#if VECTORS
  for (; i + 8 <= length WHOLE_VECTORS; i += 8) {
    OPERAND_VECTORS(i)
    float8 v;
    FORM(float8)
    STAGES(float8, LOAD8, v, first + i, channel);
    PUT8(v, y + first + i);
    channel = channel + 8 < channels ? channel + 8 : 0;
  }
#endif
  for (; i < length; i++) {
    OPERAND_ELEMENTS(i)
    W v;
    FORM(W)
    STAGES(float, LOAD, v, first + i, channel);
    PUT(v, y + first + i);
    channel = channel + 1 < channels ? channel + 1 : 0;
  }
}
