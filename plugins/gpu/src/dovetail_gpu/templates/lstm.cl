// Long short-term memory. A work group runs steps of one row of the batch: a processor's one item
// takes eight units at once, items of a larger group one each. Arithmetic and the states h and c
// are in float; S is the type of the results.

#if GROUP == 1
#define V float8
#define I int8
#define PACKED packed_float8
#define WIDTH 8
#define LANE 0
#define JOIN_ITEMS
#else
#define V float
#define I int
#define PACKED float
#define WIDTH 1
#define LANE get_local_id(0)
#define JOIN_ITEMS barrier(CLK_GLOBAL_MEM_FENCE)
#endif
#define EACH(i, count) for (int i = LANE * WIDTH; i < (count); i += GROUP * WIDTH)
#define GET(p) (*(__global const PACKED *)(p))
#define SET(v, p) (*(__global PACKED *)(p) = (v))

#define REVERSE 1
#define NORMS 2
#define PEEPHOLES 4
#define PROJECTED 8
#define GIVEN_H 16
#define GIVEN_C 32
#define KEEPS 64

#define BLOCK 64
#define EPSILON 1e-8f

#if GROUP == 1
#define AS_V as_float8
#define AS_I as_int8
#else
#define AS_V as_float
#define AS_I as_int
#endif
#define SIGN (AS_I((V)(-0.0f)))

// e to a power of 0 or less. The library's functions are calls for each element on processors.
static V power(V v) {
  v = v < (V)(-87.0f) ? (V)(-87.0f) : v;
  const V shifted = v * (V)(1.44269504f) + (V)(12582912.0f);  // the low bits are the exponent
  const V n = shifted - (V)(12582912.0f);
  const V f = v - n * (V)(0.693359375f) + n * (V)(2.12194440e-4f);
  V p = f * (V)(1.9875691e-4f) + (V)(1.3981999e-3f);
  p = p * f + (V)(8.3334519e-3f);
  p = p * f + (V)(4.1665796e-2f);
  p = p * f + (V)(1.6666665e-1f);
  p = p * f + (V)(0.5f);
  p = p * f * f + f + (V)(1.0f);
  return p * AS_V((AS_I(shifted) << 23) + 0x3f800000);
}

static V sigmoid(V v) {
  const V small = power(AS_V(AS_I(v) | SIGN));
  return (v < (V)(0.0f) ? small : (V)(1.0f)) / ((V)(1.0f) + small);
}

static V tangent(V v) {
  const V size = AS_V(AS_I(v) & ~SIGN), square = v * v;
  const V small = power((V)(-2.0f) * size);
  const V large = AS_V(AS_I(((V)(1.0f) - small) / ((V)(1.0f) + small)) | (AS_I(v) & SIGN));
  V p = square * (V)(-5.7049887e-3f) + (V)(2.0639089e-2f);
  p = p * square + (V)(-5.3739716e-2f);
  p = p * square + (V)(1.3331442e-1f);
  p = p * square + (V)(-3.3333282e-1f);
  return size < (V)(0.625f) ? v + v * square * p : large;
}

// A limit of 0 does not clip, and NaN stays.
static V clipped(V v, float limit) {
  if (limit == 0.0f) return v;
  v = v > (V)(limit) ? (V)(limit) : v;
  return v < (V)(-limit) ? (V)(-limit) : v;
}

// Stores the elements of a vector that are below `count`.
static void put(__global S *to, V v, int i, int count) {
#if GROUP == 1
  if (i + 8 <= count) {
    STORE8(v, to + i);
    return;
  }
  float part[8];
  *(float8 *)part = v;
  for (int j = 0; j < count - i; j++) STORE(part[j], to + i + j);
#else
  STORE(v, to + i);
#endif
}

// to = start + from * w, with w packed as [block][depth][BLOCK]. On processors whole blocks of `start`
// are read, and of `to` written.
static void multiply(__global float *to, __global const float *start, __global const float *from,
                     __global const float *w, int depth, int columns) {
#if GROUP == 1
  for (int n = 0; n < columns; n += BLOCK) {
    float8 sum[8];
#pragma unroll
    for (int v = 0; v < 8; v++) sum[v] = GET(start + n + v * 8);
    for (int k = 0; k < depth; k++, w += BLOCK) {
      const float8 a = (float8)(from[k]);
#pragma unroll
      for (int v = 0; v < 8; v++) sum[v] += a * GET(w + v * 8);
    }
#pragma unroll
    for (int v = 0; v < 8; v++) SET(sum[v], to + n + v * 8);
  }
#else
  EACH(n, columns) {
    __global const float *column = w + (long)(n / BLOCK) * depth * BLOCK + n % BLOCK;
    float sum = start[n];
    for (int k = 0; k < depth; k++) sum += from[k] * column[k * BLOCK];
    to[n] = sum;
  }
#endif
}

// Each item computes what normalizes the sums of a gate: the inverse deviation, and the mean.
static float2 settled(__global const float *sums, int units, bool has_norms) {
  if (!has_norms) return (float2)(1.0f, 0.0f);
  float mean = 0.0f, variance = 0.0f;
  for (int u = 0; u < units; u++) mean += sums[u];
  mean /= units;
  for (int u = 0; u < units; u++) variance += (sums[u] - mean) * (sums[u] - mean);
  const float scale = 1.0f / sqrt(variance / units + EPSILON);
  return (float2)(scale, mean);
}

// The argument of a gate's function.
static V argument(__global const float *sums, float2 by, __global const float *norm,
                  __global const float *bias, int u, bool has_norms) {
  if (!has_norms) return GET(sums + u) + GET(bias + u);
  return (GET(sums + u) - (V)(by.y)) * (V)(by.x) * GET(norm + u) + GET(bias + u);
}

// x: sums of the inputs, (positions, gates * units); more: sums of h; table: biases, norms and
// peepholes by gate, and the bias of the projection. The gates are input (unless coupled), forget,
// output and cell. With `begins` the states are set before `count` steps are run. A group of several
// items runs one step, and sets no states: a barrier in a loop takes minutes to compile with PoCL.
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void steps(
    TENSOR_IN(float, x), TENSOR_IN(float, more), TENSOR_IN(float, weights),
    TENSOR_IN(float, table), TENSOR_IN(float, projection), TENSOR_IN(float, given_h),
    TENSOR_IN(float, given_c), TENSOR_IN(uchar, reset), TENSOR_OUT(float, kept),
    TENSOR_OUT(float, state), TENSOR_OUT(float, work), TENSOR_OUT(S, y), TENSOR_OUT(S, last_c),
    TENSOR_OUT(S, last_h), TENSOR_OUT(S, last_i), TENSOR_OUT(S, last_f), TENSOR_OUT(S, last_g),
    TENSOR_OUT(S, last_o), TENSOR_OUT(S, again_h), int all_steps, int count, int begins,
    int multiplies, int units, int size, int gates, int step_stride, int row_stride, int flags,
    float cell_clip, float output_clip) {
  TENSOR_READ(float, x);
  TENSOR_READ(float, more);
  TENSOR_READ(float, weights);
  TENSOR_READ(float, table);
  TENSOR_READ(float, projection);
  TENSOR_READ(float, given_h);
  TENSOR_READ(float, given_c);
  TENSOR_READ(uchar, reset);
  TENSOR_WRITE(float, kept);
  TENSOR_WRITE(float, state);
  TENSOR_WRITE(float, work);
  TENSOR_WRITE(S, y);
  TENSOR_WRITE(S, last_c);
  TENSOR_WRITE(S, last_h);
  TENSOR_WRITE(S, last_i);
  TENSOR_WRITE(S, last_f);
  TENSOR_WRITE(S, last_g);
  TENSOR_WRITE(S, last_o);
  TENSOR_WRITE(S, again_h);
  const int row = get_group_id(0), columns = gates * units, early = gates - 2;
  const int whole = (columns + BLOCK - 1) / BLOCK * BLOCK, padded = (units + 7) / 8 * 8;
  const int outputs = (size + BLOCK - 1) / BLOCK * BLOCK;
  const bool has_norms = flags & NORMS, projects = flags & PROJECTED;
  __global float *counter = work + (long)row * (8 + whole + 2 * padded);
  __global float *sums = counter + 8, *c = sums + whole, *product = c + padded;
  __global float *h = state + (long)row * outputs;
  __global float *m = projects ? product : h;
  __global const float *norm = table + columns, *seen = norm + columns;
  __global const float *last_bias = seen + (gates - 1) * units;
  const int gate_o = early * units, gate_g = gate_o + units, gate_f = gate_o - units;
  kept += (long)row * (1 + size + units);

#if GROUP == 1
  if (begins) {
    const bool goes_on = (flags & KEEPS) && !reset[0] && kept[0] != 0.0f;
    for (int n = LANE; n < size; n += GROUP)
      h[n] = goes_on ? kept[1 + n] : flags & GIVEN_H ? given_h[row * size + n] : 0.0f;
    for (int u = LANE; u < units; u += GROUP)
      c[u] = goes_on ? kept[1 + size + u] : flags & GIVEN_C ? given_c[row * units + u] : 0.0f;
  }
  const int first = begins ? 0 : (int)counter[0];
  for (int t = first; t < first + count; t++) {
#else
  const int t = (int)counter[0], first = t;
  JOIN_ITEMS;
  {
#endif
    const int position = (flags & REVERSE ? all_steps - 1 - t : t) * step_stride + row * row_stride;
    __global const float *given = x + (long)position * columns;
    if (multiplies) {
      multiply(sums, given, h, weights, size, columns);
    } else {
      __global const float *of_h = more + row * columns;
      EACH(n, columns) SET(GET(given + n) + GET(of_h + n), sums + n);
    }
    JOIN_ITEMS;
    if (flags & PEEPHOLES) {  // one by one: a vector could reach into the next gate
      for (int g = 0; g < early; g++)
        for (int u = LANE; u < units; u += GROUP) sums[g * units + u] += c[u] * seen[g * units + u];
    }
    JOIN_ITEMS;
    const float2 by_i = settled(sums, units, has_norms && early == 2);
    const float2 by_f = settled(sums + gate_f, units, has_norms);
    const float2 by_g = settled(sums + gate_g, units, has_norms);
    const bool is_last = t == all_steps - 1;
    EACH(u, units) {
      const V f = sigmoid(argument(sums + gate_f, by_f, norm + gate_f, table + gate_f, u, has_norms));
      const V g = tangent(argument(sums + gate_g, by_g, norm + gate_g, table + gate_g, u, has_norms));
      V i = (V)(1.0f) - f;
      if (early == 2) i = sigmoid(argument(sums, by_i, norm, table, u, has_norms));
      const V next = clipped(f * GET(c + u) + i * g, cell_clip);
      SET(next, c + u);
      if (is_last) {
        put(last_i + row * units, i, u, units);
        put(last_f + row * units, f, u, units);
        put(last_g + row * units, g, u, units);
      }
    }
    JOIN_ITEMS;
    if (flags & PEEPHOLES) {
      for (int u = LANE; u < units; u += GROUP) sums[gate_o + u] += c[u] * seen[gate_o + u];
    }
    JOIN_ITEMS;
    const float2 by_o = settled(sums + gate_o, units, has_norms);
    EACH(u, units) {
      const V o = sigmoid(argument(sums + gate_o, by_o, norm + gate_o, table + gate_o, u, has_norms));
      const V v = o * tangent(GET(c + u));
      SET(v, m + u);
      if (is_last) put(last_o + row * units, o, u, units);
      if (!projects) put(y + (long)position * size, v, u, units);
    }
    JOIN_ITEMS;
    if (projects) {
      multiply(h, last_bias, m, projection, units, size);
      EACH(n, size) {
        const V v = clipped(GET(h + n), output_clip);
        SET(v, h + n);
        put(y + (long)position * size, v, n, size);
      }
    }
    JOIN_ITEMS;
  }

  if (LANE == 0) counter[0] = first + count;
  if (first + count == all_steps) {
    for (int n = LANE; n < size; n += GROUP) {
      STORE(h[n], last_h + row * size + n);
      STORE(h[n], again_h + row * size + n);
      if (flags & KEEPS) kept[1 + n] = h[n];
    }
    for (int u = LANE; u < units; u += GROUP) {
      STORE(c[u], last_c + row * units + u);
      if (flags & KEEPS) kept[1 + size + u] = c[u];
      if (all_steps == 0) {
        STORE(0.0f, last_i + row * units + u);
        STORE(0.0f, last_f + row * units + u);
        STORE(0.0f, last_g + row * units + u);
        STORE(0.0f, last_o + row * units + u);
      }
    }
    if ((flags & KEEPS) && LANE == 0) kept[0] = 1.0f;
  }
}

// Appends a part to a joined table.
__kernel void append(TENSOR_IN(float, x), TENSOR_OUT(float, y), int first, int count) {
  TENSOR_READ(float, x);
  TENSOR_WRITE(float, y);
  const int i = get_global_id(0);
  if (i < count) y[first + i] = x[i];
}
