// Reduces the middle axis of (outer, size, inner), in chunks: result (outer, chunks, inner). START
// begins it, MAP changes an element, MERGE joins two, and FINISH changes a result of `count`
// elements. X is the type of elements and Y that of results, each S or float.

#if defined(X_FLOAT)
#define LOAD_X(p) (*(p))
#define LOAD8_X(p) (*(__global const packed_float8 *)(p))
#else
#define LOAD_X LOAD
#define LOAD8_X LOAD8
#endif
#if defined(Y_FLOAT)
#define STORE_Y(v, p) (*(p) = (v))
#define STORE8_Y(v, p) (*(__global packed_float8 *)(p) = (v))
#else
#define STORE_Y STORE
#define STORE8_Y STORE8
#endif

// inner is 1: adjacent elements
#define ADD_ELEMENT(V, LOAD_V, STORE_V, at, i) \
  { \
    const V e = LOAD_V##_X(x + (at)); \
    total_##V = MERGE(V, total_##V, MAP(e)); \
  }

__kernel void rows(TENSOR_IN(X, x), TENSOR_OUT(Y, y), int size, int chunks, int chunk,
                   float count) {
  TENSOR_READ(X, x);
  TENSOR_WRITE(Y, y);
  SHARED(float, shared);
  const int row = ROW;
  const int outer = row / chunks, first = (row - outer * chunks) * chunk;
  const int length = min(chunk, size - first);
  float8 total_float8 = (float8)(START);
  float total_float = START;
  EACH(ADD_ELEMENT, outer * size + first, 1, length, 0)
  float v = MERGE(float, FOLD(MERGE, total_float8), total_float);
  JOIN(float, v, shared, MERGE)
  if (LANE == 0) STORE_Y(FINISH(v), y + row);
}

// Others: eight columns at once, and the rest one by one.
#define REDUCE_COLUMNS(V, LOAD_V, STORE_V, shared, c) \
  { \
    V v = (V)(START); \
    __global const X *p = x + (outer * size + first + LANE) * inner + (c); \
    for (int r = LANE; r < length; r += GROUP, p += GROUP * inner) { \
      const V e = LOAD_V(p); \
      v = MERGE(V, v, MAP(e)); \
    } \
    JOIN(V, v, shared, MERGE) \
    if (LANE == 0) STORE_V(FINISH(v), y + part * inner + (c)); \
  }

__kernel void columns(TENSOR_IN(X, x), TENSOR_OUT(Y, y), int size, int inner,
                      int chunks, int chunk, float count) {
  TENSOR_READ(X, x);
  TENSOR_WRITE(Y, y);
  SHARED(float8, shared8);
  SHARED(float, shared);
  const int row = ROW;
  const int blocks = (inner + 7) / 8, part = row / blocks, column = (row - part * blocks) * 8;
  const int outer = part / chunks, first = (part - outer * chunks) * chunk;
  const int length = min(chunk, size - first);
  if (column + 8 <= inner) {
    REDUCE_COLUMNS(float8, LOAD8_X, STORE8_Y, shared8, column)
  } else {
    for (int c = column; c < inner; c++) REDUCE_COLUMNS(float, LOAD_X, STORE_Y, shared, c)
  }
}
