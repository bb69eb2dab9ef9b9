// Convolutions of 3 x 3 elements by Winograd's minimal filtering F(4 x 4, 3 x 3).
//
// Each tile of 4 x 4 outputs is computed from 6 x 6 inputs: both operands are transformed, multiplied
// as 36 matrices of tiles by channels, and the products are transformed back.
// Source: Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, 2016.
//
// Work items that are neighbors along axis 0 of the range have neighboring channels, `chunk` for
// each; those along axis 1 have neighboring tiles. A group has GROUP_X times GROUP_Y. NARROW: an item
// computes one channel at a time; otherwise eight. X is the type of x and zeros, float for eight.

#if NARROW
#define V float
#define WIDTH 1
#define READ LOAD
#define WRITE STORE
#define UNROLL _Pragma("unroll")  // registers have no index
#define POINTS(p) (*(__global const float *)(p))
#if defined(X_HALF)
#define X_LOAD(p) vload_half(0, p)
#else
#define X_LOAD(p) (*(p))
#endif
#define POINTS_OUT(p) (*(__global float *)(p))
#else
#define V float8
#define WIDTH 8
#define READ LOAD8
#define WRITE STORE8
#define UNROLL
#define POINTS(p) (*(__global const packed_float8 *)(p))
#define X_LOAD POINTS
#define POINTS_OUT(p) (*(__global packed_float8 *)(p))
#endif
#define IN_TILE 6
#define OUT_TILE 4

// One axis of the transform of the input: t = B^T d.
#define TO_POINTS(t, d, step) \
  { \
    const V even = d[4 * step] - 4.0f * d[2 * step], odd = d[3 * step] - 4.0f * d[1 * step]; \
    const V near = d[4 * step] - d[2 * step], far = 2.0f * (d[3 * step] - d[1 * step]); \
    t[0] = 4.0f * d[0] - 5.0f * d[2 * step] + d[4 * step]; \
    t[1] = even + odd; \
    t[2] = even - odd; \
    t[3] = near + far; \
    t[4] = near - far; \
    t[5] = 4.0f * d[1 * step] - 5.0f * d[3 * step] + d[5 * step]; \
  }

// One axis of the transform of the products: y = A^T m.
#define FROM_POINTS(y, m, step) \
  { \
    const V sum = m[1 * step] + m[2 * step], more = m[3 * step] + m[4 * step]; \
    const V gap = m[1 * step] - m[2 * step], wide = m[3 * step] - m[4 * step]; \
    y[0] = m[0] + sum + more; \
    y[1] = gap + 2.0f * wide; \
    y[2] = sum + 4.0f * more; \
    y[3] = gap + 8.0f * wide + m[5 * step]; \
  }

// v[point][tile][c] of a tile of x; channels are a multiple of eight.
__kernel __attribute__((reqd_work_group_size(GROUP_X, GROUP_Y, 1))) void to_points(
    TENSOR_IN(X, x), TENSOR_IN(X, zeros), TENSOR_OUT(float, v), int channels, int chunk,
    int height, int width, int tiles_y, int tiles_x, int tiles, int pad_y, int pad_x) {
  TENSOR_READ(X, x);
  TENSOR_READ(X, zeros);
  TENSOR_WRITE(float, v);
  const int tile = get_global_id(1), line = tile / tiles_x, n = line / tiles_y;
  if (tile >= tiles) return;
  const int top = (line - n * tiles_y) * OUT_TILE - pad_y;
  const int left = (tile - line * tiles_x) * OUT_TILE - pad_x;
  __global const X *pixel[IN_TILE * IN_TILE];
  UNROLL for (int i = 0; i < IN_TILE; i++)
    UNROLL for (int j = 0; j < IN_TILE; j++) {
      const bool inside = (uint)(top + i) < (uint)height && (uint)(left + j) < (uint)width;
      const long at = ((long)(n * height + top + i) * width + left + j) * channels;
      pixel[i * IN_TILE + j] = inside ? x + at : zeros;
    }
  v += (long)tile * channels;
  const long point = (long)tiles * channels;
  const int begin = get_global_id(0) * chunk, end = min(begin + chunk, channels);
  for (int c = begin; c < end; c += WIDTH) {
    V rows[IN_TILE * IN_TILE];
    UNROLL for (int i = 0; i < IN_TILE; i++) {
      V d[IN_TILE];
#pragma unroll
      for (int j = 0; j < IN_TILE; j++)
        d[j] = X_LOAD(pixel[i * IN_TILE + j] + c);
      TO_POINTS((rows + i * IN_TILE), d, 1);
    }
    UNROLL for (int j = 0; j < IN_TILE; j++) {
      V t[IN_TILE];
      TO_POINTS(t, (rows + j), IN_TILE);
#pragma unroll
      for (int i = 0; i < IN_TILE; i++)
        POINTS_OUT(v + (i * IN_TILE + j) * point + c) = t[i];
    }
  }
}

// y of a tile from m[point][tile][n]; channels are a multiple of eight.
__kernel __attribute__((reqd_work_group_size(GROUP_X, GROUP_Y, 1))) void from_points(
    TENSOR_IN(float, m), TENSOR_OUT(S, y), int channels, int chunk, int height, int width,
    int tiles_y, int tiles_x, int tiles STAGE_PARAMETERS) {
  TENSOR_READ(float, m);
  TENSOR_WRITE(S, y);
  STAGE_OPERANDS
  const int tile = get_global_id(1), line = tile / tiles_x, n = line / tiles_y;
  if (tile >= tiles) return;
  const int top = (line - n * tiles_y) * OUT_TILE, left = (tile - line * tiles_x) * OUT_TILE;
  m += (long)tile * channels;
  const long point = (long)tiles * channels;
  const int begin = get_global_id(0) * chunk, end = min(begin + chunk, channels);
  for (int c = begin; c < end; c += WIDTH) {
    V rows[OUT_TILE * IN_TILE];
    UNROLL for (int j = 0; j < IN_TILE; j++) {
      V d[IN_TILE], t[OUT_TILE];
#pragma unroll
      for (int i = 0; i < IN_TILE; i++)
        d[i] = POINTS(m + (i * IN_TILE + j) * point + c);
      FROM_POINTS(t, d, 1);
#pragma unroll
      for (int i = 0; i < OUT_TILE; i++) rows[i * IN_TILE + j] = t[i];
    }
    UNROLL for (int i = 0; i < OUT_TILE; i++) {
      if (top + i >= height) break;
      V t[OUT_TILE];
      FROM_POINTS(t, (rows + i * IN_TILE), 1);
#pragma unroll
      for (int j = 0; j < OUT_TILE; j++) {
        if (left + j >= width) break;
        const int at = ((n * height + top + i) * width + left + j) * channels + c;
        V result = t[j];
        STAGES(V, READ, result, at, c);
        WRITE(result, y + at);
      }
    }
  }
}
