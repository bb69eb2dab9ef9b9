// Sums of products in registers, for processors; see product_head.cl.
//
// A work item computes ROWS positions m times VECTORS vectors of eight columns n; LANES columns, eight
// or sixteen, are one register. A tap outside the image reads a row of zeros: the loop over channels
// has no branch.

#define BLOCK (8 * VECTORS)
#define REGISTERS (BLOCK / LANES)
#define FLOATS VECTOR(float, LANES)

// W_LOADS reads the weights of LANES columns, which are W_UNITS elements of W.
#define W_UNITS LANES
#if defined(W_HALF)
#define W_LOADS(p) VECTOR(vload_half, LANES)(0, p)
#elif defined(W_FLOAT)
#define W_LOADS(p) (*(__global const FLOATS *)(p))
#elif defined(W_CHAR)
#define W_LOADS(p) VECTOR(convert_float, LANES)(*(__global const VECTOR(char, LANES) *)(p))
#elif defined(W_SHORT)
#define W_LOADS(p) VECTOR(convert_float, LANES)(*(__global const VECTOR(short, LANES) *)(p))
#elif defined(W_NIBBLE)
#undef W_UNITS
#define W_UNITS (LANES / 8)
// the shift to the left drops the other weights, the one to the right keeps the sign
#define NIBBLES(p) ((int8)(*(p)) << (int8)(28, 24, 20, 16, 12, 8, 4, 0)) >> 28
#if LANES == 8
#define W_LOADS(p) convert_float8(NIBBLES(p))
#else
#define W_LOADS(p) convert_float16((int16)(NIBBLES(p), NIBBLES((p) + 1)))
#endif
#endif
#define W_BLOCK (W_UNITS * REGISTERS)

// Adds the products of one tap: `from` are the channels of each position.
static inline void add_tap(FLOATS sum[ROWS][REGISTERS], __global const X *const *from,
                           __global const W *w, int channels) {
  for (int c = 0; c < channels; c++, w += W_BLOCK) {
    FLOATS b[REGISTERS];
#pragma unroll
    for (int v = 0; v < REGISTERS; v++) b[v] = W_LOADS(w + v * W_UNITS);
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
      const FLOATS a = (FLOATS)(X_LOAD(from[r] + c));
#pragma unroll
      for (int v = 0; v < REGISTERS; v++) sum[r][v] += a * b[v];
    }
  }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void product(PRODUCT_PARAMETERS) {
  TENSOR_READ(X, x);
  TENSOR_READ(W, w);
  TENSOR_WRITE(S, y);
  STAGE_OPERANDS
  const int first = get_group_id(0) * ROWS;
  const int part = get_group_id(1) / blocks;
  const int column = (get_group_id(1) - part * blocks) * BLOCK;
  x += part * channels;
#if BATCHED
  TENSOR_READ(int, x_at);
  TENSOR_READ(int, w_at);
  x += x_at[get_group_id(2)];
  w += w_at[get_group_id(2)];
#endif

  FLOATS sum[ROWS][REGISTERS];
#pragma unroll
  for (int r = 0; r < ROWS; r++)
#pragma unroll
    for (int v = 0; v < REGISTERS; v++) sum[r][v] = (FLOATS)(0.0f);

  __global const X *from[ROWS];
#if POINTWISE
  w += (long)get_group_id(1) * channels * W_BLOCK;
#pragma unroll
  for (int r = 0; r < ROWS; r++) from[r] = x + (long)min(first + r, positions - 1) * pixel;
  add_tap(sum, from, w, channels);
#else
  TENSOR_READ(X, zeros);
  w += (long)get_group_id(1) * taps_y * taps_x * channels * W_BLOCK;
  int top[ROWS], left[ROWS], image[ROWS];
  {
    int ox = first % y_width, oy = first / y_width, n = oy / y_height;
    oy -= n * y_height;
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
      top[r] = oy * stride_y - pad_y;
      left[r] = ox * stride_x - pad_x;
      image[r] = n * height;
      if (first + r + 1 < positions && ++ox == y_width) {
        ox = 0;
        if (++oy == y_height) {
          oy = 0;
          n++;
        }
      }
    }
  }
  for (int ky = 0; ky < taps_y; ky++) {
    for (int kx = 0; kx < taps_x; kx++) {
#pragma unroll
      for (int r = 0; r < ROWS; r++) {
        const int iy = top[r] + ky * step_y, ix = left[r] + kx * step_x;
        const bool inside = (uint)iy < (uint)height && (uint)ix < (uint)width;
        from[r] = inside ? x + ((long)(image[r] + iy) * width + ix) * pixel : zeros;
      }
      add_tap(sum, from, w, channels);
      w += channels * W_BLOCK;
    }
  }
#endif

#if HAS_SCALES
  TENSOR_READ(float, scales);
  scales += get_group_id(1) * BLOCK;
#pragma unroll
  for (int v = 0; v < REGISTERS; v++) {
    const FLOATS scale = VECTOR(vload, LANES)(v, scales);
#pragma unroll
    for (int r = 0; r < ROWS; r++) sum[r][v] *= scale;
  }
#endif
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
    if (first + r >= positions) break;
    FIND_ROW(first + r);
    const float8 *sums = (const float8 *)sum[r];
#pragma unroll
    for (int v = 0; v < VECTORS; v++) {
      const int left_over = columns - column - v * 8;
      if (left_over <= 0) break;
      const int channel = part * columns + column + v * 8;
      const int at = row * all_columns + channel;
#if !WHOLE
      if (left_over < 8) {
        float part_of[8];
        *(float8 *)part_of = sums[v];
        for (int j = 0; j < left_over; j++) {
          float one = part_of[j];
          STAGES(float, LOAD, one, at + j, channel + j);
          STORE(one, y + at + j);
        }
        break;
      }
#endif
      float8 result = sums[v];
      STAGES(float8, LOAD8, result, at, channel);
      STORE8(result, y + at);
    }
  }
}
